#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "clients/cli/local_service.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// --local and what belongs to it: a service for the time of one command.
struct LocalFlags {
  bool local = false;
  std::string data_folder;
  int workers = 0;

  void addTo(CLI::App* command);
  /// With --local: starts the service and makes it the one that `line` connects to. Null without. Before the first
  /// connection.
  absl::StatusOr<std::unique_ptr<LocalService>> start(CommandLine& line) const;
};

}  // namespace tessera::client
