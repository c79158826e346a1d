#pragma once

#include <string>

#include "compiler/driver/pipeline.h"
#include "compiler/driver/specializations.h"
#include "compiler/import/import.h"

/// Reads the model of a request, whichever command it serves.
namespace tessera::compiler {

ImportOptions importOptions(const PlanRequest& request, const Bindings& bindings);

/// Returns the format that the request names, or else the format that the file's first bytes indicate.
v1::ModelFormat formatOf(const PlanRequest& request, const std::string& first_bytes);

/// Imports the model with the importer of its format. If the request trains it, returns the training step, and adds the
/// step's states to `states`.
absl::StatusOr<ImportedModel> loadModel(mlir::MLIRContext& context, const PlanRequest& request,
                                        const Bindings& bindings, const std::string& first_bytes,
                                        v1::StateOptions* states = nullptr);

}  // namespace tessera::compiler
