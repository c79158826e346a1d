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
#include "proto/own_folder.h"
#include "proto/printable.h"
#include "proto/server_exit.h"
#include "proto/version/version.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;
constexpr auto kStartPatience = std::chrono::seconds(30);
/// A server takes its address away when it ends and when it starts, and this is longer than between the two.
constexpr auto kAwayForGood = std::chrono::seconds(5);

std::string logIn(const fs::path& folder) { return (folder / "tesserad.log").string(); }

/// What tesserad said last before it ended with an error, behind " (" and before ")"; empty: nothing.
std::string lastWordsIn(const fs::path& folder) {
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

// The address a tesserad announced in the folder, if one answers there.
std::string runningServer(const fs::path& folder) {
  std::ifstream in(folder / "tesserad.addr");
  std::string address;
  if (!std::getline(in, address) || address.empty()) return "";
  return Channel(address).waitReady(std::chrono::milliseconds(500)).ok() ? address : "";
}

// Of another build, a server would answer with another compiler than the one this program comes with.
absl::Status checkBuild(const fs::path& folder) {
  std::ifstream in(folder / "tesserad.build");
  std::string build;
  std::string process;
  std::getline(in, build);
  std::getline(in, process);
  if (build == compilerVersion()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the tesserad that serves ", folder.string(), process.empty() ? "" : absl::StrCat(" (process ", process, ")"),
      " and this command are of different builds: ", build.empty() ? "one from before builds were told" : build,
      " and ", compilerVersion(),
      "; build or install all programs together, end that tesserad and run this again, or use it as ",
      "it is with --server, or another folder with --data-dir"));
}

}  // namespace

std::string binaryBeside(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / name;
  return !error && fs::exists(beside) ? beside.string() : name;
}

std::string serverBinary() { return binaryBeside("tesserad"); }

absl::StatusOr<std::unique_ptr<LocalService>> LocalService::start(std::string data_folder, int workers) {
  if (data_folder.empty()) data_folder = defaultDataFolder();
  if (absl::Status own = makeOwnFolder(data_folder, {"tessera.db", "signing.key"}); !own.ok()) {
    return absl::Status(own.code(), absl::StrCat("data folder: ", own.message()));
  }
  const fs::path folder = fs::absolute(data_folder);
  if (std::string address = runningServer(folder); !address.empty()) {
    if (absl::Status same = checkBuild(folder); !same.ok()) return same;
    return std::unique_ptr<LocalService>(new LocalService(folder, address, 0));
  }

  if (workers == 0) workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string binary = serverBinary();
  const std::string log = logIn(folder);
  std::string address = absl::StrCat("unix:", (folder / "tesserad.sock").string());
  // A socket's path has at most 107 characters; a deep data folder takes a port instead.
  constexpr size_t kMaxSocketPath = 107;
  const std::string listen = address.size() > kMaxSocketPath ? "127.0.0.1:0" : address;
  const std::vector<std::string> words = {binary, "--data-dir", folder.string(),         "--listen",
                                          listen, "--workers",  std::to_string(workers), "--die-with-parent"};
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
  // Its own process group: Ctrl-C is for this command, which then drains the service.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  std::error_code error;
  for (const char* announced : {"tesserad.addr", "tesserad.build"}) fs::remove(folder / announced, error);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, binary.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed) return absl::ErrnoToStatus(failed, absl::StrCat("cannot start ", binary));

  auto service = std::unique_ptr<LocalService>(new LocalService(folder, address, child));
  if (absl::Status ready = service->waitUntilReady(binary); !ready.ok()) return ready;
  if (absl::Status same = checkBuild(folder); !same.ok()) return same;
  return service;
}

absl::Status LocalService::waitUntilReady(const std::string& binary) {
  const auto give_up = std::chrono::steady_clock::now() + kStartPatience;
  while (std::chrono::steady_clock::now() < give_up) {
    absl::Status why = ended();
    if (!why.ok() && child_ == 0) {
      // Another command may have started one at the same moment: the folder has one owner.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      address_ = runningServer(folder_);
      if (address_.empty()) return why;
      why_ = absl::OkStatus();
      return absl::OkStatus();
    }
    address_ = runningServer(folder_);
    if (!address_.empty()) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return absl::DeadlineExceededError(absl::StrCat(binary, " did not answer within 30 s; see ", logIn(folder_)));
}

absl::Status LocalService::whyItEnded(int wait_status) const {
  const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  if (code == server::kServerOtherBuild) {
    return absl::FailedPreconditionError(
        absl::StrCat("tesserad ended: it and the tessera-worker or tessera-task beside it are of different builds, "
                     "replaced while it ran or not built together; build or install all of them, then run this again "
                     "(what it had acknowledged is kept in ",
                     folder_.string(), "); see ", logIn(folder_)));
  }
  if (code == server::kServerOtherData) {
    return absl::FailedPreconditionError(absl::StrCat("tesserad cannot serve the data folder ", folder_.string(),
                                                      lastWordsIn(folder_), "; or name another with --data-dir"));
  }
  return absl::UnavailableError(
      absl::StrCat(serverBinary(), " ended", WIFSIGNALED(wait_status) ? " by signal " : " with exit code ",
                   WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : code, lastWordsIn(folder_), "; see ",
                   logIn(folder_), "; run this again, what it had acknowledged is kept in ", folder_.string()));
}

absl::Status LocalService::ended() {
  const std::lock_guard lock(mutex_);
  int status = 0;
  if (child_ > 0 && waitpid(child_, &status, WNOHANG) == child_) {
    child_ = 0;
    why_ = whyItEnded(status);
  }
  if (child_ > 0 || !why_.ok()) return why_;

  // Somebody else's, who may end it and start it again.
  if (fs::exists(folder_ / "tesserad.addr")) {
    unannounced_since_.reset();
    return absl::OkStatus();
  }
  const auto now = std::chrono::steady_clock::now();
  if (!unannounced_since_) unannounced_since_ = now;
  if (now - *unannounced_since_ < kAwayForGood) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "the tesserad that served ", folder_.string(), " was not started by this command and has ended; run this again, ",
      "which starts one and goes on from what is kept there; see ", logIn(folder_)));
}

LocalService::~LocalService() {
  if (child_ == 0) return;
  kill(child_, SIGTERM);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tessera::client
