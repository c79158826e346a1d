#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// --label KEY=VALUE, any number of times: the client's own words on a job.
struct LabelFlags {
  std::vector<std::string> words;

  /// Of a command that makes jobs.
  void addTo(CLI::App* command);
  /// By key. INVALID_ARGUMENT for a word without "=", or a key that is given twice; what keys and values may be, the
  /// server says.
  absl::StatusOr<std::map<std::string, std::string>> parse() const;
  /// `filter`, and that a job has all of them.
  absl::StatusOr<std::string> narrowed(const std::string& filter) const;
};

}  // namespace tessera::client
