#include "clients/cli/local_service.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/local_file.h"
#include "proto/support/printable.h"
#include "proto/support/private_folder.h"
#include "proto/support/server_exit.h"
#include "proto/support/status_macros.h"
#include "proto/version/version.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;
constexpr auto kStartPatience = std::chrono::seconds(30);
/// A tesserad that was not started by a command may be restarted by its service manager; wait this long for it.
constexpr auto kServiceManagerRestart = std::chrono::seconds(5);

std::string logIn(const fs::path& folder) { return (folder / "tesserad.log").string(); }

/// The last output of a tesserad that ended with an error, in parentheses after a blank; empty if there is none.
std::string lastLogLine(const fs::path& folder) {
  constexpr absl::string_view kProgram = "tesserad: ";
  std::ifstream in(logIn(folder));
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (absl::StartsWith(line, kProgram)) last = printable(line.substr(kProgram.size()));
  return last.empty() ? "" : absl::StrCat(" (", last, ")");
}

std::string defaultDataFolder() {
  if (const char* data = std::getenv("XDG_DATA_HOME"); data && *data) return absl::StrCat(data, "/tessera");
  if (const char* home = std::getenv("HOME"); home && *home) return absl::StrCat(home, "/.local/share/tessera");
  return "tessera-data";
}

/// The announcement of a tesserad in its data folder (tesserad.build).
struct ServerAnnouncement {
  std::string build, process;
  bool with_parent = false;  ///< ends with the command that started it
};
ServerAnnouncement announcedIn(const fs::path& folder) {
  std::ifstream in(folder / "tesserad.build");
  ServerAnnouncement it;
  std::string ends;
  std::getline(in, it.build) && std::getline(in, it.process) && std::getline(in, ends);
  it.with_parent = ends == server::kExitsWithParent;
  return it;
}

/// Whether a tesserad uses the folder: the process in the store's lock file lives and has that file open. Wrongly false
/// for a process in another PID namespace; tesserad itself relies on the lock.
bool isFolderInUse(const fs::path& folder) {
  const fs::path lock = folder / "tessera.db.lock";
  std::ifstream in(lock);
  std::string process;
  if (!std::getline(in, process) || process.empty()) return false;
  std::error_code error;
  fs::directory_iterator files(absl::StrCat("/proc/", process, "/fd"), error);
  if (error) return error == std::errc::permission_denied;  // the process of another user, whose open files are hidden
  for (; files != fs::directory_iterator(); files.increment(error)) {
    std::error_code closed;
    if (fs::equivalent(files->path(), lock, closed)) return true;
  }
  return false;
}

// The address that a tesserad announced in the folder, if a server answers there. Another program may use the port by
// now.
std::string runningServer(const fs::path& folder) {
  std::ifstream in(folder / "tesserad.addr");
  std::string address;
  if (!std::getline(in, address) || address.empty()) return "";
  // Another program cannot take over the folder's socket, but it can take over a port.
  if (!absl::StartsWith(address, "unix:") && !isFolderInUse(folder)) return "";
  return Channel(address).waitReady(std::chrono::milliseconds(500)).ok() ? address : "";
}

// A server of another build has another compiler than the one that belongs to this program.
absl::Status checkBuild(const fs::path& folder) {
  const ServerAnnouncement it = announcedIn(folder);
  if (it.build == compilerVersion()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the tesserad that serves ", folder.string(),
      it.process.empty() ? "" : absl::StrCat(" (process ", it.process, ")"),
      " and this command are of different builds: ", it.build.empty() ? "one of an earlier release" : it.build, " and ",
      compilerVersion(),
      "; build or install all programs together, end that tesserad and run this again, or use it as ",
      "it is with --server, or another folder with --data-dir"));
}

std::string socketIn(const fs::path& folder) {
  // A socket path has at most 107 characters; for longer paths a port is used.
  constexpr size_t kMaxSocketPath = 107;
  std::string address = absl::StrCat("unix:", (folder / "tesserad.sock").string());
  return address.size() > kMaxSocketPath ? "127.0.0.1:0" : address;
}

}  // namespace

std::string siblingBinary(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / name;
  return !error && fs::exists(beside) ? beside.string() : name;
}

std::string serverBinary() { return siblingBinary("tesserad"); }

absl::StatusOr<std::unique_ptr<LocalService>> LocalService::start(std::string data_folder, int workers) {
  if (data_folder.empty()) data_folder = defaultDataFolder();
  if (absl::Status own = createDataFolder(data_folder); !own.ok()) {
    return absl::Status(own.code(), absl::StrCat("data folder: ", own.message()));
  }
  const fs::path folder = fs::absolute(data_folder);
  if (workers == 0) workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  auto service = std::unique_ptr<LocalService>(new LocalService(folder, socketIn(folder), workers));
  TESSERA_RETURN_IF_ERROR(service->waitUntilReady());
  TESSERA_RETURN_IF_ERROR(checkBuild(folder));
  return service;
}

absl::Status LocalService::waitUntilReady() {
  const auto give_up = std::chrono::steady_clock::now() + kStartPatience;
  do {
    if (std::string running = runningServer(folder_); !running.empty()) {
      const std::lock_guard lock(mutex_);
      address_ = std::move(running);
      found_ = child_ == 0;
      return absl::OkStatus();
    }
    TESSERA_RETURN_IF_ERROR(check());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (std::chrono::steady_clock::now() < give_up);
  return absl::DeadlineExceededError(
      absl::StrCat("the tesserad of ", folder_.string(), " did not answer within 30 s; see ", logIn(folder_)));
}

absl::Status LocalService::spawn() {
  const std::string binary = serverBinary();
  const std::string log = logIn(folder_);
  const std::vector<std::string> words = {binary,   "--data-dir", folder_.string(),         "--listen",
                                          address_, "--workers",  std::to_string(workers_), "--die-with-parent"};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // In its own process group, so that Ctrl-C reaches only this command, which then drains the service.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  // InterruptWatch blocks signals in this process; the child must not inherit that mask.
  posix_spawnattr_setsigmask(&attributes, &none);
  std::error_code error;
  fs::remove(folder_ / "tesserad.addr", error);  // left by a killed server
  const int failed = posix_spawnp(&child_, binary.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!failed) return absl::OkStatus();
  child_ = 0;
  return absl::ErrnoToStatus(failed, absl::StrCat("cannot start ", binary));
}

absl::Status LocalService::whyItEnded(int wait_status) const {
  const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  if (code == server::kServerOtherBuild) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tesserad ended: it and its tessera-worker or tessera-task are of different builds, replaced while it ran or "
        "not built together; build or install all of them, then run this again (acknowledged work is kept in ",
        folder_.string(), "); see ", logIn(folder_)));
  }
  if (code == server::kServerOtherData) {
    return absl::FailedPreconditionError(absl::StrCat("tesserad cannot serve the data folder ", folder_.string(),
                                                      lastLogLine(folder_), "; or name another with --data-dir"));
  }
  return absl::UnavailableError(
      absl::StrCat(serverBinary(), " ended", WIFSIGNALED(wait_status) ? " by signal " : " with exit code ",
                   WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : code, lastLogLine(folder_), "; see ",
                   logIn(folder_), "; run this again, acknowledged work is kept in ", folder_.string()));
}

absl::Status LocalService::check() {
  const std::lock_guard lock(mutex_);
  int status = 0;
  if (child_ > 0 && waitpid(child_, &status, WNOHANG) == child_) {
    child_ = 0;
    // If several commands start a service at the same moment, one gets the folder, and the others use its service.
    // The loser's tesserad fails because the folder is locked by then.
    const bool lost = WIFEXITED(status) && WEXITSTATUS(status) == server::kServerFailed && isFolderInUse(folder_);
    if (!lost) why_ = whyItEnded(status);
  }
  if (child_ > 0 || !why_.ok()) return why_;

  // Another command or the owner started it. A draining service still holds the folder.
  if (isFolderInUse(folder_)) {
    gone_since_.reset();
    return absl::OkStatus();
  }
  const ServerAnnouncement last = announcedIn(folder_);
  // A service that ends with its parent is never restarted by anybody else.
  const bool owned = !last.process.empty() && !last.with_parent && found_;
  const auto now = std::chrono::steady_clock::now();
  if (!gone_since_) gone_since_ = now;
  if (owned && now - *gone_since_ < kServiceManagerRestart) return absl::OkStatus();
  return spawn();
}

LocalService::~LocalService() {
  if (child_ == 0) return;
  kill(child_, SIGTERM);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tessera::client
