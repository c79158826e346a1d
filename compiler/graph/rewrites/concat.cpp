#include "compiler/graph/rewrites/concat.h"

#include <map>
#include <vector>

#include "mlir/IR/Builders.h"

namespace tessera::compiler {
namespace {

using mlir::tensor::InsertSliceOp;

bool isLastOfChain(InsertSliceOp insert) {
  return llvm::none_of(insert->getUses(), [](mlir::OpOperand& use) {
    auto next = mlir::dyn_cast<InsertSliceOp>(use.getOwner());
    return next && use.get() == next.getDest();
  });
}

/// Parts in order and the dimension they lie along; empty if the chain is anything else.
std::pair<llvm::SmallVector<mlir::Value>, int64_t> partsOf(InsertSliceOp last) {
  auto shape = last.getType().getShape();
  llvm::SmallVector<InsertSliceOp> chain;
  mlir::Value dest = last.getResult();
  while (auto insert = dest.getDefiningOp<InsertSliceOp>()) {
    // Someone else reading a half-filled destination needs the chain as it is.
    if (insert != last && !insert->hasOneUse()) return {};
    chain.push_back(insert);
    dest = insert.getDest();
  }
  if (!dest.getDefiningOp<mlir::tensor::EmptyOp>() || chain.size() < 2) return {};
  std::reverse(chain.begin(), chain.end());
  int64_t along = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (chain[0].getStaticSizes()[d] == shape[d]) continue;
    if (along >= 0) return {};
    along = static_cast<int64_t>(d);
  }
  if (along < 0) return {};
  int64_t at = 0;
  llvm::SmallVector<mlir::Value> parts;
  for (InsertSliceOp insert : chain) {
    if (insert.getSourceType().getRank() != static_cast<int64_t>(shape.size())) return {};
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool moving = static_cast<int64_t>(d) == along;
      if (insert.getStaticStrides()[d] != 1 || insert.getStaticOffsets()[d] != (moving ? at : 0)) return {};
      if (mlir::ShapedType::isDynamic(insert.getStaticSizes()[d])) return {};
      if (!moving && insert.getStaticSizes()[d] != shape[d]) return {};
    }
    at += insert.getStaticSizes()[along];
    parts.push_back(insert.getSource());
  }
  if (at != shape[along]) return {};
  return {parts, along};
}

}  // namespace

int recognizeConcats(mlir::func::FuncOp main) {
  llvm::SmallVector<InsertSliceOp> ends;
  for (InsertSliceOp insert : main.getBody().front().getOps<InsertSliceOp>()) {
    if (isLastOfChain(insert)) ends.push_back(insert);
  }
  int count = 0;
  mlir::OpBuilder builder(main.getContext());
  for (InsertSliceOp last : ends) {
    auto [parts, along] = partsOf(last);
    if (parts.empty()) continue;
    builder.setInsertionPoint(last);
    mlir::Value concat = mlir::tensor::ConcatOp::create(builder, last.getLoc(), last.getType(), along, parts);
    last.getResult().replaceAllUsesWith(concat);
    for (mlir::Operation* op = last; op && op->use_empty() && mlir::isa<InsertSliceOp>(op);) {
      mlir::Operation* before = mlir::cast<InsertSliceOp>(op).getDest().getDefiningOp();
      op->erase();
      op = before;
    }
    ++count;
  }
  return count;
}

int nestConcats(mlir::func::FuncOp main) {
  int count = 0;
  std::map<std::pair<uint64_t, std::vector<void*>>, mlir::Value> whole;  // by dimension and parts
  for (auto concat : main.getBody().front().getOps<mlir::tensor::ConcatOp>()) {
    std::vector<void*> parts;
    for (mlir::Value part : concat.getInputs()) parts.push_back(part.getAsOpaquePointer());
    const std::vector<void*> all = parts;
    while (parts.size() > 2) {
      parts.pop_back();
      auto found = whole.find({concat.getDim(), parts});
      if (found == whole.end()) continue;
      llvm::SmallVector<mlir::Value> inputs = {found->second};
      llvm::append_range(inputs, concat.getInputs().drop_front(parts.size()));
      concat->setOperands(inputs);
      ++count;
      break;
    }
    whole.try_emplace({concat.getDim(), all}, concat.getResult());
  }
  return count;
}

}  // namespace tessera::compiler
