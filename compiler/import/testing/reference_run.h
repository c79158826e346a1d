#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/import.h"

namespace tessera::compiler {

/// Adds what referenceRun() needs beyond the importer's own dialects. Call once per context, before importing.
void registerReferenceDialects(mlir::MLIRContext& context);

/// Runs an imported model through MLIR's own default lowering (one-shot bufferization, plain loops, LLVM JIT):
/// slow, and independent of every pass of Tessera. Consumes the module.
/// `inputs` are the dense bytes of the model's inputs in order; so are the results of its outputs, whose shapes
/// (those of this run) are put into `shapes` unless it is null.
absl::StatusOr<std::vector<std::string>> referenceRun(ImportedModel model, const std::vector<std::string>& inputs,
                                                      std::vector<std::vector<int64_t>>* shapes = nullptr);

}  // namespace tessera::compiler
