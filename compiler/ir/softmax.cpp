#include "compiler/ir/softmax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;

/// Returns the operation that computes the body's result if it is one of `Ops`.
template <typename... Ops>
mlir::Operation* yieldedBy(mlir::Block& body) {
  mlir::Operation* op =
      body.getTerminator()->getNumOperands() == 1 ? body.getTerminator()->getOperand(0).getDefiningOp() : nullptr;
  return op && mlir::isa<Ops...>(op) ? op : nullptr;
}

/// Whether its operands are the body's first two arguments, in order.
bool isOfArguments(mlir::Operation* op, mlir::Block& body) {
  return op && body.getNumArguments() >= 2 && op->getOperand(0) == body.getArgument(0) &&
         op->getOperand(1) == body.getArgument(1);
}

template <typename... Ops>
bool combines(mlir::Block& body) {
  mlir::Operation* op = yieldedBy<Ops...>(body);
  return op && body.getNumArguments() == 2 &&
         (isOfArguments(op, body) ||
          (op->getOperand(0) == body.getArgument(1) && op->getOperand(1) == body.getArgument(0)));
}

}  // namespace

bool isPowerBody(mlir::Block& body) {
  mlir::Operation* power = yieldedBy<mlir::math::ExpOp>(body);
  return power && isOfArguments(power->getOperand(0).getDefiningOp<arith::SubFOp>(), body);
}

bool isQuotientBody(mlir::Block& body) { return isOfArguments(yieldedBy<arith::DivFOp>(body), body); }

bool isSumBody(mlir::Block& body) { return combines<arith::AddFOp>(body); }

bool isMaximumBody(mlir::Block& body) { return combines<arith::MaximumFOp, arith::MaxNumFOp>(body); }

}  // namespace tessera::compiler
