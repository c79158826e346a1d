#include "compiler/driver/model_loader.h"

#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/driver/model_format.h"
#include "compiler/training/training.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

ImportOptions importOptions(const PlanRequest& request, const Bindings& bindings) {
  ImportOptions options;
  options.input_shapes = bindings.input_shapes;
  options.dimensions = bindings.dimensions;
  for (const v1::TensorValue& fixed : request.spec.fixed_inputs()) options.fixed_inputs[fixed.spec().name()] = fixed;
  options.external_data = request.external_data;
  options.record_nodes = request.describe_model;
  // Of several variants each may take another branch, as windows of silero VAD do: one artifact has no fixed rate then.
  options.fix_inputs_of_branches = request.spec.specializations_size() < 2;
  return options;
}

v1::ModelFormat formatOf(const PlanRequest& request, const std::string& first_bytes) {
  const v1::ModelFormat given = request.spec.format();
  return given == v1::MODEL_FORMAT_UNSPECIFIED ? formatOf(first_bytes) : given;
}

namespace {

absl::StatusOr<ImportedModel> importModel(mlir::MLIRContext& context, const PlanRequest& request,
                                          const ImportOptions& options, const std::string& first_bytes) {
  const v1::ModelFormat format = formatOf(request, first_bytes);
  // Only ONNX models may have shapes that depend on an input's value, so only there a fixed input has a meaning.
  if (format != v1::ONNX && !options.fixed_inputs.empty()) {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_message(absl::StrCat("input '", options.fixed_inputs.begin()->first,
                                     "' is given a value, but shapes of ", v1::ModelFormat_Name(format),
                                     " models depend on no value"));
    failure.set_attribute(options.fixed_inputs.begin()->first);
    failure.set_found("a fixed input");
    failure.set_accepted("fixed inputs of ONNX models");
    failure.set_fix("leave out --fix");
    return failureStatus(failure);
  }
  switch (format) {
    case v1::MLIR_TEXT:
      return importMlir(context, request.model_path, options);
    case v1::TENSOR_EXPRESSION:
      return importExpression(context, request.model_path, options);
    default:
      return importOnnx(context, request.model_path, options);
  }
}

/// Tensor expressions and MLIR text have inputs only.
absl::Status noInitializers(const PlanRequest& request, const std::string& first_bytes) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message("only ONNX models have initializers, which training changes");
  failure.set_attribute("training");
  failure.set_found(v1::ModelFormat_Name(formatOf(request, first_bytes)));
  failure.set_accepted("an ONNX model");
  failure.set_fix("leave out --train; `tessera gradient` writes gradients of tensor expressions");
  return failureStatus(failure);
}

}  // namespace

absl::StatusOr<ImportedModel> loadModel(mlir::MLIRContext& context, const PlanRequest& request,
                                        const Bindings& bindings, const std::string& first_bytes,
                                        v1::StateOptions* states) {
  if (!request.spec.has_training()) return importModel(context, request, importOptions(request, bindings), first_bytes);
  if (formatOf(request, first_bytes) != v1::ONNX) return noInitializers(request, first_bytes);
  ImportOptions options = importOptions(request, bindings);
  training::VariableChoice variables(request.spec.training());
  options.is_variable = std::ref(variables);
  options.record_nodes = false;  // the step replaces the operations that nodes became
  TESSERA_ASSIGN_OR_RETURN(ImportedModel model, importModel(context, request, options, first_bytes));
  TESSERA_RETURN_IF_ERROR(variables.check());
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::StatePair> pairs,
                           training::makeTrainingStep(model, request.spec.training()));
  if (states != nullptr)
    for (const v1::StatePair& pair : pairs) *states->add_pairs() = pair;
  return model;
}

}  // namespace tessera::compiler
