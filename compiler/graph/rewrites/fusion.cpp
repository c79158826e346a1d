#include "compiler/graph/rewrites/fusion.h"

#include "compiler/graph/analysis/op_kind.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

using mlir::linalg::GenericOp;

/// Merging copies the whole body each time: the limit keeps a chain of n operations from costing n^2.
constexpr size_t kMaxBodyOps = 48;

size_t bodySize(GenericOp op) { return op.getBody()->getOperations().size(); }

/// A merged operation stays without readers until the rewriter removes it.
bool hasOneLiveReader(mlir::Operation* op) {
  return llvm::count_if(op->getUsers(),
                        [](mlir::Operation* user) { return !mlir::isa<GenericOp>(user) || !user->use_empty(); }) == 1;
}

/// Whether a product or similar operation feeds `op` through at most `depth` elementwise operations.
bool followsHeavy(mlir::Operation* op, int depth = 4) {
  return llvm::any_of(op->getOperands(), [&](mlir::Value operand) {
    mlir::Operation* producer = operand.getDefiningOp();
    if (!producer) return false;
    const OpKind kind = kindOf(producer);
    return kind == OpKind::kHeavy || (kind == OpKind::kElementwise && hasOneLiveReader(producer) && depth > 0 &&
                                      followsHeavy(producer, depth - 1));
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
  // The operand must be read once per point, or be cheap to repeat.
  if (!map.isPermutation() && !isCheapToRepeat(producer)) return false;
  if (!producer->hasOneUse()) return false;
  // An elementwise operation after a contraction at the same points becomes its epilogue, which a transposed read or a
  // reduction would prevent.
  return !followsHeavy(producer) || (map.isIdentity() && kind == OpKind::kElementwise);
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
