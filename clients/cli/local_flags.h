#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "clients/cli/local_service.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// --local and its companions: a service for one command.
struct LocalFlags {
  bool local = false;
  std::string data_folder;
  int workers = 0;

  void addTo(CLI::App* command);
  /// With --local, starts the service and makes `line` connect to it; otherwise returns null. Call it before the first
  /// connection.
  absl::StatusOr<std::unique_ptr<LocalService>> start(CommandLine& line) const;
};

}  // namespace tessera::client
