#include "compiler/training/reverse_mode.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/model_error.h"
#include "compiler/training/generic_gradient.h"
#include "compiler/training/movement_gradient.h"
#include "compiler/training/node_name.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/PatternMatch.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::training {
namespace {

absl::Status throughOperation(mlir::func::FuncOp main, mlir::Operation& op, Adjoints& adjoints) {
  const bool given = llvm::any_of(op.getResults(), [&](mlir::Value result) { return adjoints.of(result); });
  if (!given || !adjoints.readsDependent(op)) return absl::OkStatus();
  Emitter e = gradientEmitter(mlir::OpBuilder(main.getBody().front().getTerminator()), op);
  if (auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op)) return differentiateGeneric(e, generic, adjoints);
  TESSERA_ASSIGN_OR_RETURN(const bool moved, differentiateMovement(e, op, adjoints));
  if (moved) return absl::OkStatus();
  const std::string name = op.getName().getStringRef().str();
  return fault(v1::Failure::UNSUPPORTED_OPERATOR,
               absl::StrCat("the gradient of node '", nodeName(op), "' is not known: it became ", name),
               {.found = name,
                .accepted = "operators that become arithmetic, sums, maxima and movements of elements",
                .remedy = "freeze what the node depends on (--frozen NAME), or unroll its loop before export",
                .node = nodeName(op)});
}

}  // namespace

void generalizeNamed(mlir::func::FuncOp main) {
  llvm::SmallVector<mlir::linalg::LinalgOp> named;
  for (auto op : main.getBody().front().getOps<mlir::linalg::LinalgOp>())
    if (!mlir::isa<mlir::linalg::GenericOp, mlir::linalg::FillOp>(op)) named.push_back(op);
  mlir::IRRewriter rewriter(main.getContext());
  for (mlir::linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    // An operation that stays has no rule, which throughOperation() reports.
    (void)mlir::linalg::generalizeNamedOp(rewriter, op);
  }
}

absl::Status differentiate(mlir::func::FuncOp main, Adjoints& adjoints, llvm::ArrayRef<mlir::Operation*> forward) {
  for (mlir::Operation* op : llvm::reverse(forward)) TESSERA_RETURN_IF_ERROR(throughOperation(main, *op, adjoints));
  return absl::OkStatus();
}

}  // namespace tessera::compiler::training
