#include "compiler/graph/rewrites/stack_products.h"

#include <optional>

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/move_before.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/returned.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::ExtractSliceOp;

/// A product [rows, columns] = slice [rows, k] x weights, and its slice.
struct Member {
  GenericOp product;
  ExtractSliceOp slice;
  int64_t dim = 0;  ///< the dimension of the source that the slice cuts
};

/// Returns the only dimension that `slice` cuts, if its elements are adjacent and the last dimension is whole.
std::optional<int64_t> dimensionCut(ExtractSliceOp slice) {
  const RankedTensorType source = slice.getSourceType();
  if (!slice.getOffsets().empty() || !slice.getSizes().empty() || !slice.getStrides().empty()) return std::nullopt;
  if (!source.hasStaticShape() || source.getRank() < 2) return std::nullopt;
  std::optional<int64_t> cut;
  for (int64_t d = 0; d < source.getRank(); ++d) {
    if (slice.getStaticStrides()[d] != 1) return std::nullopt;
    if (slice.getStaticSizes()[d] == source.getDimSize(d)) continue;
    if (cut || d == source.getRank() - 1) return std::nullopt;
    cut = d;
  }
  return cut;
}

/// Whether the operands are [m, k] and the result [m, n], in this order; the weights may be transposed.
bool isPlainProduct(GenericOp op) {
  if (!isProduct(op)) return false;
  auto dims = mlir::linalg::inferContractionDims(op);
  if (mlir::failed(dims) || !dims->batch.empty() || dims->m.size() != 1 || dims->n.size() != 1 || dims->k.size() != 1 ||
      op.getNumLoops() != 3)
    return false;
  mlir::MLIRContext* context = op.getContext();
  auto map = [&](unsigned a, unsigned b) {
    return mlir::AffineMap::get(3, 0, {mlir::getAffineDimExpr(a, context), mlir::getAffineDimExpr(b, context)},
                                context);
  };
  auto maps = op.getIndexingMapsArray();
  return maps[0] == map(dims->m[0], dims->k[0]) && maps[2] == map(dims->m[0], dims->n[0]) &&
         maps[1].getNumResults() == 2;
}

std::optional<Member> memberOf(GenericOp op, int64_t most_rows) {
  if (!isPlainProduct(op) || !op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>()) return std::nullopt;
  if (!isKnownAtCompileTime(op.getDpsInputs()[1]) || isReturned(op.getResult(0))) return std::nullopt;
  mlir::Operation* producer = op.getDpsInputs()[0].getDefiningOp();
  // Views between slice and product change nothing in memory.
  while (producer && kindOf(producer) == OpKind::kView) producer = producer->getOperand(0).getDefiningOp();
  auto slice = mlir::dyn_cast_or_null<ExtractSliceOp>(producer);
  if (!slice || isKnownAtCompileTime(slice.getSource())) return std::nullopt;
  const auto cut = dimensionCut(slice);
  // Views keep the order of elements, so rows of the product are rows of the slice if both end in the reduced
  // dimension.
  const auto left = mlir::cast<RankedTensorType>(op.getDpsInputs()[0].getType());
  const RankedTensorType source = slice.getSourceType();
  if (!cut || left.getShape().back() != source.getShape().back() || left.getDimSize(0) >= most_rows)
    return std::nullopt;
  return Member{op, slice, *cut};
}

bool together(const Member& a, const Member& b) {
  GenericOp x = a.product, y = b.product;
  auto fill = [](GenericOp op) { return op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>().getInputs()[0]; };
  ExtractSliceOp s = a.slice, t = b.slice;
  return s.getSource() == t.getSource() && a.dim == b.dim && x.getDpsInputs()[1] == y.getDpsInputs()[1] &&
         x.getIndexingMapsArray() == y.getIndexingMapsArray() && fill(x) == fill(y) &&
         mlir::OperationEquivalence::isRegionEquivalentTo(&x.getRegion(), &y.getRegion(),
                                                          mlir::OperationEquivalence::Flags::IgnoreLocations);
}

/// Whether the members read most of the cut dimension, so that computing all of it pays.
bool coversMost(llvm::ArrayRef<Member> row) {
  const Member& first = row.front();
  ExtractSliceOp slice = first.slice;
  const int64_t extent = slice.getSourceType().getDimSize(first.dim);
  llvm::SmallVector<bool> read(extent, false);
  // Counts rows that some member reads, each once.
  for (Member member : row) {
    const int64_t begin = member.slice.getStaticOffsets()[member.dim];
    std::fill_n(read.begin() + begin, member.slice.getStaticSizes()[member.dim], true);
  }
  return 4 * llvm::count(read, true) >= 3 * extent;
}

/// Groups all dimensions except the last.
llvm::SmallVector<mlir::ReassociationIndices> rowsAndColumns(int64_t rank) {
  mlir::ReassociationIndices rows;
  for (int64_t d = 0; d + 1 < rank; ++d) rows.push_back(d);
  return {rows, {rank - 1}};
}

void stack(llvm::ArrayRef<Member> row) {
  GenericOp first = row.front().product;
  ExtractSliceOp first_slice = row.front().slice;
  mlir::OpBuilder b(first);
  llvm::SmallVector<mlir::Location> locations;
  for (Member member : row) locations.push_back(member.product.getLoc());
  const mlir::Location loc = b.getFusedLoc(locations);
  Value source = first_slice.getSource(), weights = first.getDpsInputs()[1];
  moveBefore(weights, first);
  const RankedTensorType type = first_slice.getSourceType();
  const int64_t rank = type.getRank(), rows = type.getNumElements() / type.getShape().back();
  const auto result_type = mlir::cast<RankedTensorType>(first.getResult(0).getType());
  const int64_t columns = result_type.getDimSize(1);

  // All dimensions but the summed one become rows.
  Value left = rank == 2 ? source : mlir::tensor::CollapseShapeOp::create(b, loc, source, rowsAndColumns(rank));
  Value init = refill(b, first.getDpsInits()[0], {rows, columns});
  auto product = GenericOp::create(b, loc, mlir::TypeRange{init.getType()}, mlir::ValueRange{left, weights},
                                   mlir::ValueRange{init}, first.getIndexingMapsArray(), first.getIteratorTypesArray());
  b.cloneRegionBefore(first.getRegion(), product.getRegion(), product.getRegion().begin());
  Value whole = product.getResult(0);
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape.back() = columns;
  if (rank > 2) {
    auto expanded = RankedTensorType::get(shape, result_type.getElementType());
    whole = mlir::tensor::ExpandShapeOp::create(b, loc, expanded, whole, rowsAndColumns(rank));
  }
  // Each member's result is the same slice of the whole result.
  for (Member member : row) {
    auto sizes = member.slice.getMixedSizes();
    sizes.back() = b.getIndexAttr(columns);
    Value part = ExtractSliceOp::create(b, member.product.getLoc(), whole, member.slice.getMixedOffsets(), sizes,
                                        member.slice.getMixedStrides());
    if (rank > 2) part = mlir::tensor::CollapseShapeOp::create(b, member.product.getLoc(), part, rowsAndColumns(rank));
    member.product.getResult(0).replaceAllUsesWith(part);
  }
  for (Member member : row) member.product.erase();
}

}  // namespace

int stackProducts(mlir::func::FuncOp main, const Chip& chip) {
  llvm::SmallVector<llvm::SmallVector<Member>> rows;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    const auto member = memberOf(op, chip.costParameters().products().max_merged_rows());
    if (!member) continue;
    auto* row = llvm::find_if(rows, [&](const auto& other) { return together(other.front(), *member); });
    if (row == rows.end()) {
      rows.push_back({*member});
    } else {
      row->push_back(*member);
    }
  }
  int count = 0;
  for (const auto& row : rows) {
    if (row.size() < 2 || !coversMost(row)) continue;
    count += static_cast<int>(row.size()) - 1;
    stack(row);
  }
  return count;
}

}  // namespace tessera::compiler
