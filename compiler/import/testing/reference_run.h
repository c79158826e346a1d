#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/import.h"

namespace tessera::compiler {

/// Interprets an imported model (compiler/interpreter): slow, and independent of every step that follows import.
/// `inputs` are the dense bytes of the model's inputs in order; so are the results of its outputs, whose shapes
/// (those of this run) are put into `shapes` unless it is null.
absl::StatusOr<std::vector<std::string>> referenceRun(const ImportedModel& model,
                                                      const std::vector<std::string>& inputs,
                                                      std::vector<std::vector<int64_t>>* shapes = nullptr);

}  // namespace tessera::compiler
