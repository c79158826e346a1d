#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "clients/cli/shape_flags.h"
#include "clients/cpp/compile.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// The flags that say what to compile and for what, shared by `compile` and `explain`.
struct ModelFlags {
  std::string model;
  std::string target = "host";
  std::string name;
  ShapeFlags shapes;
  std::vector<std::string> fixed;          ///< "shape=2,3", see fix_flag.h
  std::vector<std::string> external_data;  ///< "location=file"
  std::string format;                      ///< empty: the file name's ending decides
  int opt_level = 0;
  std::string precision = "model";
  std::string pins, plan, suggestions;  ///< files of decisions: some, all, or what may be of use

  void addTo(CLI::App* command);
  /// Fills spec, model_path, external_data, pins_path and digest_cache.
  absl::Status fill(CompileRequest& request) const;
};

}  // namespace tessera::client
