#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/import.h"

namespace tessera::compiler {

/// Interprets an imported model (compiler/interpreter): slow, and independent of all steps after import. `inputs` and
/// the returned outputs are dense bytes in the model's order. Stores the output shapes of this run in `shapes` unless
/// it is null. INVALID_ARGUMENT with the run's error if it finds one (ImportedModel.run_faults).
absl::StatusOr<std::vector<std::string>> referenceRun(const ImportedModel& model,
                                                      const std::vector<std::string>& inputs,
                                                      std::vector<std::vector<int64_t>>* shapes = nullptr);

}  // namespace tessera::compiler
