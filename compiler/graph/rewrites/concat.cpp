#include "compiler/graph/rewrites/concat.h"

#include <unordered_map>

#include "llvm/ADT/Hashing.h"
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

/// Returns the parts in order and their dimension; empty if the chain has another form.
std::pair<llvm::SmallVector<mlir::Value>, int64_t> partsOf(InsertSliceOp last) {
  auto shape = last.getType().getShape();
  llvm::SmallVector<InsertSliceOp> chain;
  mlir::Value dest = last.getResult();
  while (auto insert = dest.getDefiningOp<InsertSliceOp>()) {
    // Another reader of a partially filled destination needs the chain.
    if (insert != last && !insert->hasOneUse()) return {};
    chain.push_back(insert);
    dest = insert.getDest();
  }
  // Parts of the result that nothing writes would be undefined.
  if (!dest.getDefiningOp<mlir::tensor::EmptyOp>() || chain.size() < 2) return {};
  std::reverse(chain.begin(), chain.end());
  // All parts must differ from the whole along one and the same dimension.
  int64_t along = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (chain[0].getStaticSizes()[d] == shape[d]) continue;
    if (along >= 0) return {};
    along = static_cast<int64_t>(d);
  }
  if (along < 0) return {};
  // Parts follow each other without gaps and cover everything else.
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
    // Removes the chain backwards, as far as nothing else reads it.
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
  struct Whole {
    llvm::SmallVector<mlir::Value> parts;
    mlir::Value result;
  };
  int count = 0;
  std::unordered_map<size_t, Whole> known;  // keyed by a hash of dimension and parts
  for (auto concat : main.getBody().front().getOps<mlir::tensor::ConcatOp>()) {
    const llvm::SmallVector<mlir::Value> parts(concat.getInputs());
    llvm::SmallVector<size_t> hashes;  // of the dimension and the first n parts, for each n
    llvm::hash_code hash = llvm::hash_value(concat.getDim());
    for (mlir::Value part : parts) {
      hash = llvm::hash_combine(hash, part.getAsOpaquePointer());
      hashes.push_back(static_cast<size_t>(hash));
    }
    // The longest common front is the best one.
    for (size_t first = parts.size() - 1; first >= 2; --first) {
      const auto found = known.find(hashes[first - 1]);
      // Hashes may collide, so parts are compared.
      if (found == known.end() ||
          found->second.result.getDefiningOp<mlir::tensor::ConcatOp>().getDim() != concat.getDim() ||
          llvm::ArrayRef(found->second.parts) != llvm::ArrayRef(parts).take_front(first))
        continue;
      llvm::SmallVector<mlir::Value> inputs = {found->second.result};
      llvm::append_range(inputs, llvm::ArrayRef(parts).drop_front(first));
      concat->setOperands(inputs);
      ++count;
      break;
    }
    if (!parts.empty()) known.try_emplace(hashes.back(), Whole{parts, concat.getResult()});
  }
  return count;
}

}  // namespace tessera::compiler
