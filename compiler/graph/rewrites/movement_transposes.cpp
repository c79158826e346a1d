// Rules for transposes that meet, cancel, or move past other operations.
#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/counted_pattern.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/rewrites/movement_rules.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::PatternRewriter;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using Permutation = llvm::SmallVector<int64_t>;

Permutation producerPermutation(Value value) {
  mlir::Operation* op = value.getDefiningOp();
  return op ? compiler::permutationOf(op) : Permutation();
}

Value sourceOf(Value transposed) { return transposed.getDefiningOp<GenericOp>().getDpsInputs()[0]; }

Value transposeOfTranspose(GenericOp op, PatternRewriter& r) {
  const Permutation outer = compiler::permutationOf(op);
  const Permutation inner = outer.empty() ? Permutation() : producerPermutation(op.getDpsInputs()[0]);
  if (inner.empty()) return {};
  Permutation both;
  for (int64_t d : outer) both.push_back(inner[d]);
  return transpose(r, op.getLoc(), sourceOf(op.getDpsInputs()[0]), both);
}

/// Groups dimensions so that each group has at most one extent above one. Unit dimensions join the group before them;
/// leading ones join the first.
llvm::SmallVector<mlir::ReassociationIndices> groupUnitDimensions(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<mlir::ReassociationIndices> groups;
  mlir::ReassociationIndices pending;
  for (auto [d, extent] : llvm::enumerate(shape)) {
    pending.push_back(static_cast<int64_t>(d));
    if (extent == 1) continue;
    groups.push_back(pending);
    pending.clear();
  }
  if (!groups.empty()) groups.back().append(pending);
  return groups;
}

/// A transpose that keeps the order of all dimensions with more than one element moves no bytes.
Value transposeAsReshape(GenericOp op, PatternRewriter& r) {
  const Permutation permutation = compiler::permutationOf(op);
  if (permutation.empty()) return {};
  auto from = mlir::cast<RankedTensorType>(op.getDpsInputs()[0].getType());
  auto to = mlir::cast<RankedTensorType>(op.getResult(0).getType());
  int64_t last = -1;
  for (int64_t d : permutation) {
    if (from.getDimSize(d) == 1) continue;
    if (d < last) return {};
    last = d;
  }
  auto before = groupUnitDimensions(from.getShape());
  auto after = groupUnitDimensions(to.getShape());
  if (before.empty()) return {};
  Value flat = op.getDpsInputs()[0];
  if (static_cast<int64_t>(before.size()) != from.getRank()) {
    flat = mlir::tensor::CollapseShapeOp::create(r, op.getLoc(), flat, before);
  }
  if (static_cast<int64_t>(after.size()) == to.getRank()) return flat;
  return mlir::tensor::ExpandShapeOp::create(r, op.getLoc(), to, flat, after);
}

/// transpose(collapse(transpose x)): the outer transpose moves before the merge, keeping merged groups together.
Value transposeThroughMerge(GenericOp op, PatternRewriter& r) {
  const Permutation outer = compiler::permutationOf(op);
  if (outer.empty()) return {};
  auto merge = op.getDpsInputs()[0].getDefiningOp<mlir::tensor::CollapseShapeOp>();
  if (!merge || !merge->hasOneUse() || producerPermutation(merge.getSrc()).empty()) return {};
  auto groups = merge.getReassociationIndices();
  Permutation spread;
  llvm::SmallVector<mlir::ReassociationIndices> regrouped;
  for (int64_t d : outer) {
    mlir::ReassociationIndices& group = regrouped.emplace_back();
    for (int64_t source : groups[d]) {
      group.push_back(static_cast<int64_t>(spread.size()));
      spread.push_back(source);
    }
  }
  Value moved = transpose(r, op.getLoc(), merge.getSrc(), spread);
  return mlir::tensor::CollapseShapeOp::create(
      r, merge.getLoc(), mlir::cast<RankedTensorType>(op.getResult(0).getType()), moved, regrouped);
}

/// transpose(expand(transpose x)): the inner transpose moves after the split.
Value splitThroughTranspose(mlir::tensor::ExpandShapeOp op, PatternRewriter& r) {
  const Permutation inner = producerPermutation(op.getSrc());
  if (inner.empty() || !op.getSrc().hasOneUse() || !op->hasOneUse()) return {};
  if (compiler::permutationOf(*op->user_begin()).empty()) return {};
  auto groups = op.getReassociationIndices();
  // Dimension inner[d] of x is dimension d of the transpose, which splits into groups[d].
  llvm::SmallVector<int64_t> position(inner.size());
  for (auto [d, source] : llvm::enumerate(inner)) position[source] = static_cast<int64_t>(d);
  llvm::SmallVector<mlir::ReassociationIndices> split(inner.size());
  llvm::SmallVector<int64_t> shape;
  Permutation spread(op.getType().getRank());
  for (size_t source = 0; source < inner.size(); ++source) {
    for (int64_t dim : groups[position[source]]) {
      split[source].push_back(static_cast<int64_t>(shape.size()));
      spread[dim] = static_cast<int64_t>(shape.size());
      shape.push_back(op.getType().getDimSize(dim));
    }
  }
  auto type = RankedTensorType::get(shape, op.getType().getElementType());
  Value expanded = mlir::tensor::ExpandShapeOp::create(r, op.getLoc(), type, sourceOf(op.getSrc()), split);
  return transpose(r, op.getSrc().getLoc(), expanded, spread);
}

/// elementwise(transpose x, v) -> transpose(elementwise(x, v)) if no other operand would then be read out of order.
Value transposeBehindElementwise(GenericOp op, PatternRewriter& r) {
  if (kindOf(op) != OpKind::kElementwise || op->getNumResults() != 1 || op.hasIndexSemantics()) return {};
  if (!compiler::permutationOf(op).empty() || !op.getDpsInits()[0].getDefiningOp<mlir::tensor::EmptyOp>()) return {};
  Permutation permutation;
  llvm::SmallVector<Value> inputs;
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [index, input] : llvm::enumerate(op.getDpsInputs())) {
    inputs.push_back(input);
    if (!mlir::isa<RankedTensorType>(input.getType()) || maps[index].getNumResults() < maps[index].getNumDims())
      continue;
    const Permutation own = producerPermutation(input);
    if (own.empty() || !maps[index].isIdentity() || !input.hasOneUse()) return {};
    if (!permutation.empty() && own != permutation) return {};
    permutation = own;
    inputs.back() = sourceOf(input);
  }
  if (permutation.empty()) return {};
  // A widening conversion belongs after data movement, so that the transpose moves the narrow elements.
  auto bits = [](Value value) -> unsigned {
    mlir::Type element = mlir::cast<RankedTensorType>(value.getType()).getElementType();
    return element.isIndex() ? 64 : element.getIntOrFloatBitWidth();
  };
  if (op.getNumDpsInputs() == 1 && bits(op.getResult(0)) > bits(inputs[0])) return {};
  // Loop d indexed dimension d of the transposed operand and becomes loop permutation[d].
  llvm::SmallVector<mlir::AffineExpr> renamed;
  for (int64_t source : permutation) renamed.push_back(r.getAffineDimExpr(static_cast<unsigned>(source)));
  const auto loops = static_cast<unsigned>(permutation.size());
  Permutation back(permutation.size());
  for (auto [d, source] : llvm::enumerate(permutation)) back[source] = static_cast<int64_t>(d);
  for (auto [index, input] : llvm::enumerate(op.getDpsInputs())) {
    const bool moved = inputs[index] != input;
    maps[index] = moved ? AffineMap::getMultiDimIdentityMap(loops, r.getContext())
                        : maps[index].replaceDimsAndSymbols(renamed, {}, loops, 0);
  }
  auto type = mlir::cast<RankedTensorType>(op.getResult(0).getType());
  llvm::SmallVector<int64_t> shape;
  for (int64_t d : back) shape.push_back(type.getDimSize(d));
  Value empty = mlir::tensor::EmptyOp::create(r, op.getLoc(), shape, type.getElementType());
  maps.back() = AffineMap::getMultiDimIdentityMap(loops, r.getContext());
  auto result = GenericOp::create(r, op.getLoc(), mlir::TypeRange{empty.getType()}, inputs, mlir::ValueRange{empty},
                                  maps, op.getIteratorTypesArray());
  r.cloneRegionBefore(op.getRegion(), result.getRegion(), result.getRegion().begin());
  return transpose(r, op.getLoc(), result.getResult(0), permutation);
}

}  // namespace

void addTransposeRules(mlir::RewritePatternSet& patterns, int& count) {
  addCounted<GenericOp>(patterns, count,
                        {transposeOfTranspose, transposeAsReshape, transposeThroughMerge, transposeBehindElementwise});
  addCounted<mlir::tensor::ExpandShapeOp>(patterns, count, {splitThroughTranspose});
}

}  // namespace tessera::compiler
