#include "compiler/graph/fusion.h"

#include "compiler/graph/op_kind.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

using mlir::linalg::GenericOp;

/// Merging copies the whole body each time: the cap keeps a chain of n operations from costing n^2.
constexpr size_t kMaxBodyOps = 48;

size_t bodySize(GenericOp op) { return op.getBody()->getOperations().size(); }

bool readsHeavyResult(GenericOp op) {
  return llvm::any_of(op->getOperands(), [](mlir::Value operand) {
    mlir::Operation* producer = operand.getDefiningOp();
    return producer && kindOf(producer) == OpKind::kHeavy;
  });
}

bool shouldFuse(mlir::OpOperand* operand) {
  auto producer = operand->get().getDefiningOp<GenericOp>();
  auto consumer = mlir::dyn_cast<GenericOp>(operand->getOwner());
  if (!producer || !consumer || producer->getNumResults() != 1) return false;
  if (bodySize(producer) + bodySize(consumer) > kMaxBodyOps) return false;
  const OpKind kind = kindOf(consumer);
  if (kind != OpKind::kElementwise && kind != OpKind::kReduction) return false;
  mlir::AffineMap map = consumer.getMatchingIndexingMap(operand);
  // Read once per point, or cheap enough to repeat at each point.
  if (!map.isPermutation() && !isCheapToRepeat(producer)) return false;
  if (!producer->hasOneUse()) return false;
  // What follows a contraction at the same points becomes its epilogue; a transposed read would lose that.
  // So would a reduction's.
  return !readsHeavyResult(producer) || (map.isIdentity() && kind == OpKind::kElementwise);
}

}  // namespace

int fuseElementwise(mlir::func::FuncOp main) {
  auto countGenerics = [&] {
    int count = 0;
    main.walk([&](GenericOp) { ++count; });
    return count;
  };
  const int before = countGenerics();
  mlir::RewritePatternSet patterns(main.getContext());
  mlir::linalg::populateElementwiseOpsFusionPatterns(patterns, shouldFuse);
  mlir::linalg::populateInlineConstantOperandsPatterns(patterns);
  mlir::linalg::populateEraseUnusedOperandsAndResultsPatterns(patterns);
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  return before - countGenerics();
}

}  // namespace tessera::compiler
