#include "compiler/training/adjoints.h"

#include "compiler/training/node_name.h"

namespace tessera::compiler::training {

using mlir::Value;

v1::DataType floatTypeOf(Value tensor) {
  const mlir::Type type = mlir::getElementTypeOrSelf(tensor.getType());
  if (type.isF32()) return v1::DATA_TYPE_F32;
  if (type.isF64()) return v1::DATA_TYPE_F64;
  if (type.isF16()) return v1::DATA_TYPE_F16;
  return type.isBF16() ? v1::DATA_TYPE_BF16 : v1::DATA_TYPE_UNSPECIFIED;
}

Emitter gradientEmitter(mlir::OpBuilder builder, mlir::Operation& op) {
  const mlir::Location loc = mlir::NameLoc::get(builder.getStringAttr(nodeName(op) + ".gradient"));
  // Gradients contain no constants but those of bodies.
  return Emitter(builder, loc, [](Emitter&, const ConstantPtr&) { return Value(); });
}

Adjoints::Adjoints(mlir::func::FuncOp main, llvm::ArrayRef<Value> variables) {
  depends_.insert(variables.begin(), variables.end());
  for (mlir::Operation& op : main.getBody().front()) {
    if (!readsDependent(op)) continue;
    for (const Value result : op.getResults())
      if (floatTypeOf(result) != v1::DATA_TYPE_UNSPECIFIED) depends_.insert(result);
  }
}

bool Adjoints::readsDependent(mlir::Operation& op) const {
  bool reads = false;
  op.walk([&](mlir::Operation* each) {
    reads |= llvm::any_of(each->getOperands(), [&](Value operand) { return depends(operand); });
  });
  return reads;
}

void Adjoints::add(Emitter& e, Value tensor, Value part) {
  if (!depends(tensor) || !part) return;
  Value& sum = sums_[tensor];
  if (!sum) {
    sum = part;
    return;
  }
  const v1::DataType type = floatTypeOf(tensor);
  sum = e.elementwise(type, {Emitter::wrap(sum, type), Emitter::wrap(part, type)},
                      [](const Scalars& s, mlir::ValueRange v) { return s.add(v[0], v[1]); })
            .value;
}

}  // namespace tessera::compiler::training
