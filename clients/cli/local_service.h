#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::client {

/// The path of one of our programs next to this one, or its bare name, to be found in the PATH.
std::string siblingBinary(const std::string& name);
/// The tesserad next to this program, or "tesserad", to be found in the PATH.
std::string serverBinary();

/// A tesserad for `--local`. An existing service of the data folder is used and left running. Otherwise a service is
/// started on a Unix socket in the folder, and drained when this object is destroyed or this process ends in any way,
/// such as by a signal. The stored data remains, so the next command finds a warm cache.
///
/// An existing service may end before this command, together with the `--local` command that started it. Then check()
/// starts a new one at the same address, where this command's job continues. Thread-safe.
class LocalService {
 public:
  /// `data_folder` empty: $XDG_DATA_HOME/tessera or ~/.local/share/tessera. `workers` 0: one for each core.
  /// FAILED_PRECONDITION if the existing tesserad is of another build than this program.
  static absl::StatusOr<std::unique_ptr<LocalService>> start(std::string data_folder, int workers);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  const std::string& address() const { return address_; }
  /// Checks the service; restarts it if it has ended. OK while the service is alive, may be restarted by its owner, or
  /// has just been replaced. An error (with a remedy) if it will never answer. Call it repeatedly while the service
  /// does not answer.
  absl::Status check();

 private:
  LocalService(std::filesystem::path folder, std::string address, int workers)
      : folder_(std::move(folder)), address_(std::move(address)), workers_(workers) {}
  absl::Status waitUntilReady();
  absl::Status spawn();  ///< requires mutex_
  /// `wait_status` is the child's status from waitpid.
  absl::Status whyItEnded(int wait_status) const;

  const std::filesystem::path folder_;
  std::string address_;  ///< constant after start()
  const int workers_;
  std::mutex mutex_;
  pid_t child_ = 0;                                                  ///< 0: none, or ended
  absl::Status why_;                                                 ///< why the child ended
  bool found_ = false;                                               ///< start() used an existing service
  std::optional<std::chrono::steady_clock::time_point> gone_since_;  ///< since when no process uses the folder
};

}  // namespace tessera::client
