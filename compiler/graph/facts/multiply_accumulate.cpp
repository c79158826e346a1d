#include "compiler/graph/facts/multiply_accumulate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {

bool isMultiplyAccumulate(mlir::linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1) return false;
  mlir::Block* body = op.getBody();
  if (body->getOperations().size() != 3) return false;
  mlir::Operation* product = &body->front();
  mlir::Operation* sum = product->getNextNode();
  mlir::Operation* yield = body->getTerminator();
  const bool kinds = (mlir::isa<mlir::arith::MulFOp>(product) && mlir::isa<mlir::arith::AddFOp>(sum)) ||
                     (mlir::isa<mlir::arith::MulIOp>(product) && mlir::isa<mlir::arith::AddIOp>(sum));
  if (!kinds || yield->getOperand(0) != sum->getResult(0)) return false;
  auto reads = [](mlir::Operation* inner, mlir::Value a, mlir::Value b) {
    return (inner->getOperand(0) == a && inner->getOperand(1) == b) ||
           (inner->getOperand(0) == b && inner->getOperand(1) == a);
  };
  return reads(product, body->getArgument(0), body->getArgument(1)) &&
         reads(sum, product->getResult(0), body->getArgument(2));
}

}  // namespace tessera::compiler
