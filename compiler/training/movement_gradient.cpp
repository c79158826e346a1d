#include "compiler/training/movement_gradient.h"

#include "compiler/import/model_error.h"
#include "compiler/training/node_name.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler::training {
namespace {

namespace tensor = mlir::tensor;
using mlir::Value;

Shape shapeOf(Value value) {
  const auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  return {shape.begin(), shape.end()};
}

Tensor asTensor(Value value) { return Emitter::wrap(value, floatTypeOf(value)); }

/// A tensor of zeros with `part` in a slice of it.
Value inZeros(Emitter& e, Value part, const Shape& shape, mlir::OffsetSizeAndStrideOpInterface slice) {
  const Tensor zeros = e.zeros(floatTypeOf(part), shape);
  return tensor::InsertSliceOp::create(e.b, e.loc, part, zeros.value, slice.getMixedOffsets(), slice.getMixedSizes(),
                                       slice.getMixedStrides());
}

/// The gradient of a slice: padding where the slice is dense.
Value ofSlice(Emitter& e, tensor::ExtractSliceOp slice, Value gradient) {
  const Shape source = shapeOf(slice.getSource());
  const auto offsets = slice.getStaticOffsets(), sizes = slice.getStaticSizes(), strides = slice.getStaticStrides();
  const bool dense = llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
  if (!dense || slice.getResultType().getRank() != slice.getSourceType().getRank())
    return inZeros(e, gradient, source, slice);
  Shape high;
  for (size_t d = 0; d < source.size(); ++d) high.push_back(source[d] - offsets[d] - sizes[d]);
  return e.pad(asTensor(gradient), offsets, high, e.scalars(floatTypeOf(gradient)).constant(0)).value;
}

Value sliceOf(Emitter& e, Value gradient, tensor::InsertSliceOp insert) {
  return tensor::ExtractSliceOp::create(e.b, e.loc, insert.getSourceType(), gradient, insert.getMixedOffsets(),
                                        insert.getMixedSizes(), insert.getMixedStrides());
}

}  // namespace

absl::StatusOr<bool> differentiateMovement(Emitter& e, mlir::Operation& op, Adjoints& adjoints) {
  const Value gradient = op.getNumResults() == 1 ? adjoints.of(op.getResult(0)) : Value();
  if (mlir::isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    const Value source = op.getOperand(0);
    adjoints.add(e, source, e.reshape(asTensor(gradient), shapeOf(source)).value);
    return true;
  }
  if (auto pad = mlir::dyn_cast<tensor::PadOp>(op)) {
    if (adjoints.readsDependent(*pad.getBody()->getTerminator()))
      return fault(v1::Failure::UNSUPPORTED_OPERATOR, "no gradient is known of a padding by a computed value",
                   {.remedy = "freeze the padding's value: --frozen NAME", .node = nodeName(op)});
    const Shape shape = shapeOf(pad.getSource());
    adjoints.add(e, pad.getSource(),
                 e.slice(asTensor(gradient), pad.getStaticLow(), shape, Shape(shape.size(), 1)).value);
    return true;
  }
  if (auto slice = mlir::dyn_cast<tensor::ExtractSliceOp>(op)) {
    adjoints.add(e, slice.getSource(), ofSlice(e, slice, gradient));
    return true;
  }
  if (auto insert = mlir::dyn_cast<tensor::InsertSliceOp>(op)) {
    if (adjoints.depends(insert.getSource())) adjoints.add(e, insert.getSource(), sliceOf(e, gradient, insert));
    if (!adjoints.depends(insert.getDest())) return true;
    const Tensor zeros = e.zeros(floatTypeOf(gradient), shapeOf(insert.getSource()));
    const Value rest = tensor::InsertSliceOp::create(e.b, e.loc, zeros.value, gradient, insert.getMixedOffsets(),
                                                     insert.getMixedSizes(), insert.getMixedStrides());
    adjoints.add(e, insert.getDest(), rest);
    return true;
  }
  return false;
}

}  // namespace tessera::compiler::training
