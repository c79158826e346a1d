#include "compiler/verification/model_run.h"

#include "absl/strings/str_cat.h"
#include "compiler/ir/weight_attribute.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::verification {

using interpreter::Array;
using interpreter::Element;

Element elementOf(const v1::TensorSpec& spec) {
  using Kind = Element::Kind;
  switch (spec.dtype()) {
    case v1::DATA_TYPE_F16:
      return {Kind::kF16, 16};
    case v1::DATA_TYPE_BF16:
      return {Kind::kBF16, 16};
    case v1::DATA_TYPE_F32:
      return {Kind::kF32, 32};
    case v1::DATA_TYPE_F64:
      return {Kind::kF64, 64};
    default:
      return {Kind::kInteger, static_cast<unsigned>(8 * tessera::elementBytes(spec.dtype()))};
  }
}

const Array& WeightArrays::of(const Weight& weight, mlir::RankedTensorType type) {
  Entry& entry = entries_[{weight.bytes.data(), weight.bytes.size()}];
  const Element element = interpreter::elementOf(type.getElementType());
  const bool same = entry.array.storage && entry.array.storage->element == element &&
                    llvm::ArrayRef<int64_t>(entry.array.shape) == type.getShape();
  if (!same) entry = {weight.owner, interpreter::fromBytes(element, type.getShape(), weight.bytes)};
  return entry.array;
}

absl::StatusOr<std::vector<Array>> runMain(const ImportedModel& model, const std::vector<Array>& inputs,
                                           WeightArrays& weights, const interpreter::Options& options) {
  auto main = mlir::ModuleOp(*model.module).lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<Array> arguments;
  size_t input = 0;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto type = llvm::cast<mlir::RankedTensorType>(main.getArgumentTypes()[i]);
    auto weight = main.getArgAttrOfType<mlir::IntegerAttr>(i, kWeightAttribute);
    if (weight) {
      arguments.push_back(weights.of(model.weights[weight.getInt()], type));
    } else if (input < inputs.size()) {
      arguments.push_back(inputs[input++]);
    } else {
      return absl::InternalError("@main takes more inputs than the model has");
    }
  }
  interpreter::Options with_weights = options;
  with_weights.weight = [&](int64_t index, mlir::RankedTensorType type) -> absl::StatusOr<Array> {
    if (index < 0 || index >= static_cast<int64_t>(model.weights.size()))
      return absl::InternalError(absl::StrCat("the model has no weight ", index));
    return weights.of(model.weights[static_cast<size_t>(index)], type);
  };
  return interpreter::interpret(main, std::move(arguments), with_weights);
}

}  // namespace tessera::compiler::verification
