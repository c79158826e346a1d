#include "compiler/graph/rewrites/simplify.h"

#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/rewrites/common_values.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {

int generalizeNamedOps(mlir::func::FuncOp main) {
  llvm::SmallVector<mlir::linalg::LinalgOp> named;
  main.walk([&](mlir::linalg::LinalgOp op) {
    if (!mlir::isa<mlir::linalg::GenericOp, mlir::linalg::FillOp>(op)) named.push_back(op);
  });
  mlir::IRRewriter rewriter(main.getContext());
  int count = 0;
  for (mlir::linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    count += mlir::succeeded(mlir::linalg::generalizeNamedOp(rewriter, op));
  }
  return count;
}

int dropUnitBroadcasts(mlir::func::FuncOp main) {
  int count = 0;
  for (auto op : main.getBody().front().getOps<mlir::linalg::GenericOp>()) {
    if (kindOf(op) != OpKind::kElementwise) continue;
    llvm::SmallVector<mlir::AffineMap> maps = op.getIndexingMapsArray();
    mlir::OpBuilder builder(op);
    for (unsigned index = 0; index < op.getNumDpsInputs(); ++index) {
      auto type = mlir::dyn_cast<mlir::RankedTensorType>(op.getDpsInputs()[index].getType());
      if (!type || type.getRank() < 2 || type.getNumElements() == 0) continue;
      if (maps[index].getNumResults() == maps[index].getNumDims()) continue;  // a transpose, not a broadcast
      // Row statistics, indexed by the leading loops, prevent nothing, and a view would separate them from their
      // reduction.
      bool leading = true;
      for (auto [d, result] : llvm::enumerate(maps[index].getResults()))
        leading &= result == builder.getAffineDimExpr(d);
      if (leading) continue;
      llvm::SmallVector<mlir::AffineExpr> kept;
      // Each kept dimension absorbs its adjacent unit dimensions.
      llvm::SmallVector<mlir::ReassociationIndices> groups;
      mlir::ReassociationIndices pending;
      for (int64_t d = 0; d < type.getRank(); ++d) {
        pending.push_back(d);
        if (type.getDimSize(d) == 1) continue;
        kept.push_back(maps[index].getResult(d));
        groups.push_back(pending);
        pending.clear();
      }
      if (kept.size() == static_cast<size_t>(type.getRank())) continue;
      if (!groups.empty()) groups.back().append(pending);
      mlir::Value view = mlir::tensor::CollapseShapeOp::create(builder, op.getLoc(), op.getDpsInputs()[index], groups);
      op->setOperand(index, view);
      maps[index] = mlir::AffineMap::get(maps[index].getNumDims(), 0, kept, op.getContext());
      ++count;
    }
    op.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
  }
  return count;
}

namespace {

int countWork(mlir::func::FuncOp main) {
  return static_cast<int>(llvm::count_if(main.getBody().front().without_terminator(),
                                         [](mlir::Operation& op) { return kindOf(&op) != OpKind::kCloned; }));
}

}  // namespace

int removeDeadCode(mlir::func::FuncOp main) {
  const int before = countWork(main);
  llvm::SmallVector<mlir::Operation*> ops;
  for (mlir::Operation& op : main.getBody().front().without_terminator()) ops.push_back(&op);
  // Readers come first, so that a whole chain is removed.
  for (mlir::Operation* op : llvm::reverse(ops)) {
    if (mlir::isOpTriviallyDead(op)) op->erase();
  }
  return before - countWork(main);
}

int eliminateDuplicates(mlir::func::FuncOp main) {
  const int before = countWork(main);
  // Hoists constants from bodies: a body with a constant of its own differs from one that reads the same constant from
  // outside.
  llvm::SmallVector<mlir::arith::ConstantOp> inner;
  mlir::Block& entry = main.getBody().front();
  main.walk([&](mlir::arith::ConstantOp op) {
    if (op->getBlock() != &entry) inner.push_back(op);
  });
  for (mlir::arith::ConstantOp op : inner) op->moveBefore(&entry, entry.begin());
  mergeCommonValues(main);
  return before - countWork(main);
}

absl::Status canonicalizeGraph(mlir::func::FuncOp main, Canonicalizer& canonicalizer) {
  bool changed = false;
  const bool canonical = canonicalizer.run(main, changed);
  const bool merged = mergeCommonValues(main);
  // Merging may enable further folding of the duplicates' users.
  if (merged || !canonical) canonicalizer.run(main, changed);
  if ((changed || merged) && mlir::failed(mlir::verify(main))) {
    return failureStatus(v1::Failure::INTERNAL, "canonicalization of the graph failed");
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
