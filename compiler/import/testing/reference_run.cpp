#include "compiler/import/testing/reference_run.h"

#include "compiler/import/element_type.h"
#include "compiler/runtime/output_extents.h"
#include "compiler/verification/model_run.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

absl::StatusOr<std::vector<std::string>> referenceRun(const ImportedModel& model,
                                                      const std::vector<std::string>& inputs,
                                                      std::vector<std::vector<int64_t>>* shapes) {
  std::vector<interpreter::Array> arrays;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const v1::TensorSpec& spec = model.inputs[i];
    const llvm::SmallVector<int64_t> shape(spec.shape().begin(), spec.shape().end());
    // An input that became a constant need not be given.
    std::string bytes = i < inputs.size() ? inputs[i] : std::string();
    bytes.resize(elementCount(shape) * elementBytes(spec.dtype()));
    arrays.push_back(interpreter::fromBytes(verification::elementOf(spec), shape, bytes));
  }
  verification::WeightArrays weights;
  TESSERA_ASSIGN_OR_RETURN(auto results, verification::runMain(model, arrays, weights, {}));
  if (!model.run_faults.empty()) {
    const interpreter::Array& fault = results.back();
    const int64_t number = fault.at(fault.offset).integer;
    if (number != 0) return absl::InvalidArgumentError(model.run_faults.at(static_cast<size_t>(number - 1)));
  }
  std::vector<std::string> outputs;
  for (size_t o = 0; o < model.outputs.size(); ++o) {
    const v1::TensorSpec& spec = model.outputs[o];
    std::vector<int64_t> shape(spec.shape().begin(), spec.shape().end());
    for (size_t i = 0; i < model.extents.size(); ++i) {
      if (model.extents[i].output != static_cast<int>(o)) continue;
      const interpreter::Array& extent = results[model.outputs.size() + i];
      shape[model.extents[i].dimension] = extent.at(extent.offset).integer;
    }
    std::string bytes = interpreter::toBytes(results[o]);
    packDense(bytes.data(), elementBytes(spec.dtype()), {spec.shape().data(), shape.size()}, shape);
    bytes.resize(elementCount(shape) * elementBytes(spec.dtype()));
    outputs.push_back(std::move(bytes));
    if (shapes) shapes->push_back(shape);
  }
  return outputs;
}

}  // namespace tessera::compiler
