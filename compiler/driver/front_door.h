#pragma once

#include <string>

#include "compiler/driver/pipeline.h"
#include "compiler/driver/specializations.h"
#include "compiler/import/import.h"

/// How a request's model is read, whatever is then done with it.
namespace tessera::compiler {

ImportOptions importOptions(const PlanRequest& request, const Bindings& bindings);

/// The format the request names, or the one that the file's first bytes speak of.
v1::ModelFormat formatOf(const PlanRequest& request, const std::string& first_bytes);

/// Reads the model through the front door of its format.
absl::StatusOr<ImportedModel> importModel(mlir::MLIRContext& context, const PlanRequest& request,
                                          const Bindings& bindings, const std::string& first_bytes);

}  // namespace tessera::compiler
