#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tessera::client {

/// One of our programs: that beside this one, or its name, to be found in the PATH.
std::string binaryBeside(const std::string& name);
/// The tesserad beside this program, or "tesserad", to be found in the PATH.
std::string serverBinary();

/// A tesserad for `--local`. When one already serves the data folder it is used and left alone; otherwise
/// one is started on a Unix socket within the folder and drained when this object goes away. What it stored
/// stays, so the next command finds its cache warm.
class LocalService {
 public:
  /// `data_folder` empty: $XDG_DATA_HOME/tessera or ~/.local/share/tessera. `workers` 0: one for each core.
  static absl::StatusOr<std::unique_ptr<LocalService>> start(std::string data_folder, int workers);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  const std::string& address() const { return address_; }

 private:
  LocalService(std::string address, pid_t child) : address_(std::move(address)), child_(child) {}

  std::string address_;
  pid_t child_;  ///< 0: not ours
};

}  // namespace tessera::client
