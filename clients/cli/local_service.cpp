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

#include "absl/strings/str_cat.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/local_file.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;
constexpr auto kStartPatience = std::chrono::seconds(30);

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
  std::error_code error;
  fs::create_directories(data_folder, error);
  if (error) return fileError(error.value(), absl::StrCat("cannot make the data folder ", data_folder));
  const fs::path folder = fs::absolute(data_folder);
  if (std::string address = runningServer(folder); !address.empty()) {
    return std::unique_ptr<LocalService>(new LocalService(address, 0));
  }

  if (workers == 0) workers = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string binary = serverBinary();
  const std::string log = (folder / "tesserad.log").string();
  std::string address = absl::StrCat("unix:", (folder / "tesserad.sock").string());
  // A socket's path has at most 107 characters; a deep data folder takes a port instead.
  constexpr size_t kMaxSocketPath = 107;
  const std::string listen = address.size() > kMaxSocketPath ? "127.0.0.1:0" : address;
  const std::vector<std::string> words = {binary, "--data-dir", folder.string(),        "--listen",
                                          listen, "--workers",  std::to_string(workers)};
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
  fs::remove(folder / "tesserad.addr", error);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, binary.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed) return absl::ErrnoToStatus(failed, absl::StrCat("cannot start ", binary));

  auto service = std::unique_ptr<LocalService>(new LocalService(address, child));
  const auto give_up = std::chrono::steady_clock::now() + kStartPatience;
  while (std::chrono::steady_clock::now() < give_up) {
    if (waitpid(child, nullptr, WNOHANG) == child) {
      service->child_ = 0;
      // Another command may have started one at the same moment: the folder has one owner.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      service->address_ = runningServer(folder);
      if (!service->address_.empty()) return service;
      return absl::InternalError(absl::StrCat(binary, " ended at once; see ", log));
    }
    service->address_ = runningServer(folder);
    if (!service->address_.empty()) return service;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return absl::DeadlineExceededError(absl::StrCat(binary, " did not answer within 30 s; see ", log));
}

LocalService::~LocalService() {
  if (child_ == 0) return;
  kill(child_, SIGTERM);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tessera::client
