#include "compiler/graph/simplify.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "proto/failure.h"

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

absl::Status canonicalizeGraph(mlir::func::FuncOp main) {
  mlir::PassManager passes(main.getContext(), mlir::func::FuncOp::getOperationName());
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  // CSE leaves duplicates' users in a form that folds further.
  passes.addPass(mlir::createCanonicalizerPass());
  if (mlir::failed(passes.run(main))) {
    return failureStatus(v1::Failure::INTERNAL, "canonicalization of the graph failed");
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
