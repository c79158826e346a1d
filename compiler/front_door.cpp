#include "compiler/front_door.h"

#include "compiler/model_format.h"

namespace tessera::compiler {

ImportOptions importOptions(const PlanRequest& request, const Bindings& bindings) {
  ImportOptions options;
  options.input_shapes = bindings.input_shapes;
  options.dimensions = bindings.dimensions;
  options.external_data = request.external_data;
  options.record_nodes = request.describe_model;
  return options;
}

v1::ModelFormat formatOf(const PlanRequest& request, const std::string& first_bytes) {
  const v1::ModelFormat given = request.spec.format();
  return given == v1::MODEL_FORMAT_UNSPECIFIED ? formatOf(first_bytes) : given;
}

absl::StatusOr<ImportedModel> importModel(mlir::MLIRContext& context, const PlanRequest& request,
                                          const Bindings& bindings, const std::string& first_bytes) {
  const ImportOptions options = importOptions(request, bindings);
  switch (formatOf(request, first_bytes)) {
    case v1::MLIR_TEXT:
      return importMlir(context, request.model_path, options);
    case v1::TENSOR_EXPRESSION:
      return importExpression(context, request.model_path, options);
    default:
      return importOnnx(context, request.model_path, options);
  }
}

}  // namespace tessera::compiler
