#include "compiler/graph/facts/delicate.h"

#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// Whether a value of a body depends on elements that may be missing, and not on positions or whole tensors alone.
bool dependsOnMissing(Value value, llvm::function_ref<bool(Value)> may_be_missing) {
  llvm::SmallVector<Value> open{value};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second) continue;
    mlir::Operation* op = next.getDefiningOp();
    if (!op || op->getNumRegions() > 0) return true;
    if (auto extract = mlir::dyn_cast<mlir::tensor::ExtractOp>(op)) {
      if (may_be_missing(extract.getTensor())) return true;
      continue;  // its indices are looked at for themselves
    }
    open.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

}  // namespace

bool isDelicate(mlir::Operation* op, llvm::function_ref<bool(Value)> may_be_missing) {
  return op
      ->walk([&](mlir::Operation* inner) {
        bool any = false;
        if (auto extract = mlir::dyn_cast<mlir::tensor::ExtractOp>(inner)) {
          any =
              llvm::any_of(extract.getIndices(), [&](Value index) { return dependsOnMissing(index, may_be_missing); });
        } else if (mlir::isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp,
                             arith::CeilDivSIOp, arith::CeilDivUIOp>(inner)) {
          any = dependsOnMissing(inner->getOperand(1), may_be_missing);
        }
        return any ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

}  // namespace tessera::compiler
