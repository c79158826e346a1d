#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "clients/cli/shape_flags.h"
#include "clients/cli/training_flags.h"
#include "clients/cpp/compile.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// The flags that describe what to compile and for which target, shared by `compile` and `explain`.
struct ModelFlags {
  std::string model;
  std::string target = "host";
  std::string name;
  ShapeFlags shapes;
  std::vector<std::string> fixed;          ///< "shape=2,3", see fix_flag.h
  std::vector<std::string> states;         ///< "past=present", or "auto"
  std::vector<std::string> external_data;  ///< "location=file"
  std::string format;                      ///< empty: by the file's extension
  int opt_level = 0;
  std::string precision = "model";
  TrainingFlags training;
  std::string pins, plan, suggestions;  ///< files of decisions: --pin, --plan, --suggest

  void addTo(CLI::App* command);
  /// Fills spec, model_path, external_data, pins_path and digest_cache.
  absl::Status fill(CompileRequest& request) const;
};

}  // namespace tessera::client
