#include "compiler/graph/rewrites/sink_views.h"

#include "compiler/graph/analysis/op_kind.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

/// Whether `operand` of an elementwise operation is a view of a result that a root computed for it alone.
bool viewsFreshResult(mlir::OpOperand* operand) {
  auto consumer = mlir::dyn_cast<mlir::linalg::GenericOp>(operand->getOwner());
  if (!consumer || kindOf(consumer) != OpKind::kElementwise || consumer->getNumResults() != 1) return false;
  if (!consumer.getMatchingIndexingMap(operand).isIdentity()) return false;
  mlir::Operation* view = operand->get().getDefiningOp();
  if (!view || kindOf(view) != OpKind::kView || !view->hasOneUse()) return false;
  mlir::Operation* producer = view->getOperand(0).getDefiningOp();
  while (producer && kindOf(producer) == OpKind::kElementwise && producer->hasOneUse()) {
    mlir::Operation* before = producer->getOperand(0).getDefiningOp();
    if (!before || kindOf(before) == OpKind::kView) break;
    producer = before;
  }
  if (!producer || !producer->hasOneUse()) return false;
  return kindOf(producer) == OpKind::kHeavy || kindOf(producer) == OpKind::kReduction;
}

int countViewedLoops(mlir::func::FuncOp main) {
  int count = 0;
  main.walk([&](mlir::linalg::GenericOp op) {
    for (mlir::OpOperand& operand : op->getOpOperands()) count += viewsFreshResult(&operand);
  });
  return count;
}

}  // namespace

int sinkViews(mlir::func::FuncOp main) {
  const int before = countViewedLoops(main);
  if (before == 0) return 0;
  mlir::RewritePatternSet patterns(main.getContext());
  // A collapse_shape before an operation expands its loops; an expand_shape collapses them.
  mlir::linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, viewsFreshResult);
  mlir::linalg::populateFoldReshapeOpsByCollapsingPatterns(patterns, viewsFreshResult);
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
  return before - countViewedLoops(main);
}

}  // namespace tessera::compiler
