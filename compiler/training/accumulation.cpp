#include "compiler/training/accumulation.h"

#include "compiler/import/model_error.h"
#include "compiler/training/node_name.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::training {

namespace arith = mlir::arith;
using mlir::Value;

absl::StatusOr<Accumulation> accumulationOf(mlir::linalg::GenericOp op) {
  mlir::Block& body = *op.getBody();
  const Value yielded = body.getTerminator()->getOperand(0);
  const Value so_far = body.getArguments().back();
  if (so_far.use_empty()) return Accumulation{.value = yielded};
  mlir::Operation* combine = yielded.getDefiningOp();
  Accumulation result;
  if (combine != nullptr && combine->getNumOperands() == 2 && so_far.hasOneUse() &&
      llvm::is_contained(combine->getOperands(), so_far)) {
    result.value = combine->getOperand(combine->getOperand(0) == so_far ? 1 : 0);
    if (mlir::isa<arith::AddFOp>(combine)) result.kind = Accumulation::Kind::kSum;
    if (mlir::isa<arith::MulFOp>(combine)) result.kind = Accumulation::Kind::kProduct;
    if (mlir::isa<arith::MaximumFOp, arith::MaxNumFOp>(combine)) result.kind = Accumulation::Kind::kMax;
    if (mlir::isa<arith::MinimumFOp, arith::MinNumFOp>(combine)) result.kind = Accumulation::Kind::kMin;
  }
  if (result.kind != Accumulation::Kind::kNone) return result;
  return fault(v1::Failure::UNSUPPORTED_OPERATOR, "no derivative of this reduction is known",
               {.found = combine != nullptr ? combine->getName().getStringRef().str() : "a copy",
                .accepted = "sums, products, maxima and minima",
                .remedy = "freeze what the operator depends on: --frozen NAME",
                .node = nodeName(*op)});
}

}  // namespace tessera::compiler::training
