#include "compiler/graph/analysis/address_or_divisor.h"

#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// Whether a value of a body depends on elements that may be missing, rather than only on positions or whole tensors.
bool dependsOnMissing(Value value, llvm::function_ref<bool(Value)> may_be_missing) {
  llvm::SmallVector<Value> open{value};
  llvm::DenseSet<Value> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second) continue;
    mlir::Operation* op = next.getDefiningOp();
    // An argument is an element that may be missing; a nested region is not analysed.
    if (!op || op->getNumRegions() > 0) return true;
    if (auto extract = mlir::dyn_cast<mlir::tensor::ExtractOp>(op)) {
      if (may_be_missing(extract.getTensor())) return true;
      continue;  // the caller checks its indices separately
    }
    open.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// Whether an index is clamped to [0, size) for any operand.
bool isHeldInside(Value index, int64_t size) {
  while (auto cast = index.getDefiningOp<arith::IndexCastOp>()) index = cast.getIn();
  const auto constantOf = [](Value value) -> std::optional<int64_t> {
    llvm::APInt number;
    if (!mlir::matchPattern(value, mlir::m_ConstantInt(&number))) return std::nullopt;
    return number.getSExtValue();
  };
  bool above = false, below = false;
  // A clamp is a minimum and a maximum, in either order.
  while (!(above && below)) {
    mlir::Operation* op = index.getDefiningOp();
    if (!op || !mlir::isa<arith::MinSIOp, arith::MaxSIOp>(op)) return false;
    const auto known = constantOf(op->getOperand(1));  // canonical form has the constant second
    if (!known || *known < 0 || *known >= size) return false;
    (mlir::isa<arith::MinSIOp>(op) ? below : above) = true;
    index = op->getOperand(0);
  }
  return true;
}

}  // namespace

bool computesAddressOrDivisor(mlir::Operation* op, llvm::function_ref<bool(Value)> may_be_missing) {
  return op
      ->walk([&](mlir::Operation* inner) {
        // Only two things can go wrong with a missing element: a position outside a tensor, and a division.
        bool any = false;
        if (auto extract = mlir::dyn_cast<mlir::tensor::ExtractOp>(inner)) {
          const auto shape = mlir::cast<mlir::RankedTensorType>(extract.getTensor().getType()).getShape();
          for (auto [index, size] : llvm::zip_equal(extract.getIndices(), shape))
            any |= !isHeldInside(index, size) && dependsOnMissing(index, may_be_missing);
        } else if (mlir::isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp,
                             arith::CeilDivSIOp, arith::CeilDivUIOp>(inner)) {
          any = dependsOnMissing(inner->getOperand(1), may_be_missing);
        }
        return any ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
      })
      .wasInterrupted();
}

}  // namespace tessera::compiler
