#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// --label KEY=VALUE, repeatable: the client's own labels of a job.
struct LabelFlags {
  std::vector<std::string> words;

  /// For commands that create jobs.
  void addTo(CLI::App* command);
  /// Returns the labels by key. INVALID_ARGUMENT for a word without "=" or a repeated key; the server checks keys and
  /// values further.
  absl::StatusOr<std::map<std::string, std::string>> parse() const;
  /// Returns `filter`, extended by the condition that a job has all labels.
  absl::StatusOr<std::string> narrowed(const std::string& filter) const;
};

}  // namespace tessera::client
