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

/// One of our programs: that beside this one, or its name, to be found in the PATH.
std::string binaryBeside(const std::string& name);
/// The tesserad beside this program, or "tesserad", to be found in the PATH.
std::string serverBinary();

/// A tesserad for `--local`. When one already serves the data folder it is used and left alone; otherwise
/// one is started on a Unix socket within the folder and drained when this object goes away, or when this process
/// ends in any other way, as by a signal. What it stored stays, so the next command finds its cache warm.
///
/// A service that was found may end before this command does: with the other `--local` command that started it. Then
/// ended() starts one in its place, at the same address, where this command's job goes on. Thread-safe.
class LocalService {
 public:
  /// `data_folder` empty: $XDG_DATA_HOME/tessera or ~/.local/share/tessera. `workers` 0: one for each core.
  /// FAILED_PRECONDITION where the tesserad there is of another build than this program.
  static absl::StatusOr<std::unique_ptr<LocalService>> start(std::string data_folder, int workers);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  const std::string& address() const { return address_; }
  /// OK while it lives, may come back, or has just been replaced; else why it never will answer, and what to do. To be
  /// asked again and again while it does not answer.
  absl::Status ended();

 private:
  LocalService(std::filesystem::path folder, std::string address, int workers)
      : folder_(std::move(folder)), address_(std::move(address)), workers_(workers) {}
  absl::Status waitUntilReady();
  absl::Status spawn();  ///< with mutex_ held
  /// `wait_status`: of our child, as waitpid gives it.
  absl::Status whyItEnded(int wait_status) const;

  const std::filesystem::path folder_;
  std::string address_;  ///< constant once start() has returned
  const int workers_;
  std::mutex mutex_;
  pid_t child_ = 0;                                                  ///< 0: not ours, or ended
  absl::Status why_;                                                 ///< of a child that has ended
  bool found_ = false;                                               ///< start() found a service and started none
  std::optional<std::chrono::steady_clock::time_point> gone_since_;  ///< no process holds the folder
};

}  // namespace tessera::client
