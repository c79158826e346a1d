#include "compiler/graph/rewrites/wide_concats.h"

#include <algorithm>

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

int splitWideConcats(mlir::func::FuncOp main) {
  constexpr size_t kMost = kMaxConcatOperands;
  int count = 0;
  for (auto concat : main.getBody().front().getOps<mlir::tensor::ConcatOp>()) {
    if (concat.getInputs().size() <= kMost) continue;
    mlir::OpBuilder builder(concat);
    llvm::SmallVector<mlir::Value> parts(concat.getInputs());
    // A tree of concatenations: each round joins kMost neighbours, which keeps the order.
    while (parts.size() > kMost) {
      llvm::SmallVector<mlir::Value> joined;
      for (llvm::ArrayRef<mlir::Value> rest = parts; !rest.empty();) {
        const llvm::ArrayRef<mlir::Value> front = rest.take_front(kMost);
        joined.push_back(front.size() == 1
                             ? front[0]
                             : mlir::tensor::ConcatOp::create(builder, concat.getLoc(), concat.getDim(), front));
        rest = rest.drop_front(front.size());
      }
      parts = std::move(joined);
    }
    concat->setOperands(parts);
    ++count;
  }
  return count;
}

}  // namespace tessera::compiler
