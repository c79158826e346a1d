#include "compiler/graph/layout/matmul_layout.h"

#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/layout/whole_block_readers.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

int64_t panelWidth(int64_t columns, int64_t lanes) {
  for (int64_t width : {2 * lanes, lanes, lanes / 2}) {
    if (width >= 4 && columns % width == 0) return width;
  }
  return 0;
}

/// Returns the panel width that needs the fewest zeros; the wider one on a tie.
int64_t filledWidth(int64_t columns, int64_t lanes) { return ceilDiv(columns, lanes) % 2 == 0 ? 2 * lanes : lanes; }

/// Returns the only reader of `value` if it is elementwise and can compute whole panels; otherwise null.
GenericOp followerOf(Value value, llvm::ArrayRef<int64_t> whole) {
  auto reader = value.hasOneUse() ? mlir::dyn_cast<GenericOp>(*value.user_begin()) : GenericOp();
  return reader && canComputeWhole(reader, value, whole) ? reader : GenericOp();
}

/// Returns the microseconds of a product with `rows` rows that reads its weights once: `columns` of them, which fill
/// `lanes` of vectors.
double productUs(const Chip& chip, int64_t rows, int64_t depth, int64_t columns, int64_t lanes) {
  const double rate = chip.operationsPerSecond() * chip.costParameters().products().peak_share();
  const double bytes = static_cast<double>(depth * columns) * sizeof(float);
  const double reading =
      bytes / (chip.costParameters().memory().stream_bandwidth_share() * chip.bytesPerSecond(chip.levelHolding(bytes)));
  return std::max(2.0 * static_cast<double>(rows * depth * lanes) / rate, reading) * 1e6;
}

/// Whether panels filled up with zeros pay if no width, or only half a vector, divides the columns. They pay if there
/// are many rows: otherwise panels would be packed in every run, or half-empty vectors would take longer than loading
/// the weights. Following operations compute whole panels where they can. The result is then cut to its columns, which
/// costs a pass if its readers cannot read in place. `width` is the width of panels without fill, or 0.
bool paysToFillUp(GenericOp op, int64_t columns, int64_t depth, int64_t width, const Chip& chip) {
  const int64_t lanes = chip.vectorBits() / 32;
  auto type = mlir::cast<mlir::RankedTensorType>(op.getResult(0).getType());
  const int64_t rows = type.getNumElements() / columns;
  if (width >= lanes) return false;
  const int64_t filled = ceilDiv(columns, lanes) * lanes;  // for either width
  llvm::SmallVector<int64_t> whole(type.getShape());
  whole.back() = filled;
  Value last = op.getResult(0);
  // Followers compute the fill as well, so that the cut moves after them.
  while (GenericOp follower = followerOf(last, whole)) last = follower.getResult(0);
  const auto is_elementwise = [](mlir::Operation* user) { return kindOf(user) == OpKind::kElementwise; };
  // No width divides the columns: fills up if there are many rows and columns, and if no elementwise reader has to
  // copy.
  if (width == 0)
    return rows >= chip.costParameters().products().padded_panel_rows() && columns >= 16 * lanes &&
           llvm::none_of(last.getUsers(), is_elementwise);
  // Linalg readers other than elementwise ones read the cut result in place; others need a pass over it.
  const bool in_place = llvm::all_of(last.getUsers(), [&](mlir::Operation* user) {
    return mlir::isa<mlir::linalg::LinalgOp>(user) && !is_elementwise(user);
  });
  const double saved =
      productUs(chip, rows, depth, columns, columns / width * lanes) - productUs(chip, rows, depth, filled, filled);
  const double pass = fusion::roundTripSeconds(chip, static_cast<double>(rows * columns) * sizeof(float)) * 1e6;
  return saved > (in_place ? 0 : pass);
}

/// Packs the product's right-hand side. Returns false if the product does not match or packing does not pay.
bool packMatmul(GenericOp op, const Chip& chip) {
  const int64_t lanes = chip.vectorBits() / 32;
  auto dims = mlir::linalg::inferContractionDims(op);
  if (mlir::failed(dims)) return false;
  if (!dims->batch.empty() || dims->n.size() != 1 || dims->k.size() != 1) return false;
  const unsigned n = dims->n[0], k = dims->k[0];
  llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Value left = op.getDpsInputs()[0];
  Value right = op.getDpsInputs()[1];
  if (!isKnownAtCompileTime(right) || isKnownAtCompileTime(left)) return false;
  // The right side is [K, N] or [N, K]; N is innermost in the result.
  const bool transposed = maps[1].getNumResults() == 2 && maps[1].getResult(0).isFunctionOfDim(n);
  if (maps[1].getNumResults() != 2 || !maps[1].getResult(transposed ? 0 : 1).isFunctionOfDim(n) ||
      !maps[2].getResults().back().isFunctionOfDim(n)) {
    return false;
  }
  auto output_type = mlir::cast<mlir::RankedTensorType>(op.getResult(0).getType());
  const int64_t columns = output_type.getShape().back();
  if (columns == 0) return false;
  const int64_t depth = mlir::cast<mlir::RankedTensorType>(right.getType()).getDimSize(transposed ? 1 : 0);
  int64_t width = panelWidth(columns, lanes);
  const bool fill_up = paysToFillUp(op, columns, depth, width, chip);
  if (fill_up) width = filledWidth(columns, lanes);
  if (width == 0 && !transposed) return false;

  mlir::OpBuilder builder(op);
  mlir::MLIRContext* context = builder.getContext();
  llvm::SmallVector<int64_t> to_row_major = {1, 0};
  Value rows = transposed ? transpose(builder, op.getLoc(), right, to_row_major) : right;
  const unsigned loops = maps[0].getNumDims();
  auto dim = [&](unsigned position) { return mlir::getAffineDimExpr(position, context); };
  // No width applies: only makes the matrix row-major.
  if (width == 0) {
    maps[1] = AffineMap::get(loops, 0, {dim(k), dim(n)}, context);
    op->setOperand(1, rows);
    op.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
    return true;
  }
  const int64_t filled = (columns + width - 1) / width * width;
  if (fill_up) rows = padDimension(builder, op.getLoc(), rows, 1, filled);
  Value panels = splitDimension(builder, op.getLoc(), rows, 1, width);  // K, N/nr, nr
  panels = transpose(builder, op.getLoc(), panels, {1, 0, 2});
  llvm::SmallVector<int64_t> shape(output_type.getShape());
  shape.back() = filled / width;
  shape.push_back(width);
  Value init = refill(builder, op.getDpsInits()[0], shape);
  if (!init) return false;
  // Loop n becomes the panel; the column within a panel is a new loop.
  const unsigned column = loops;
  llvm::SmallVector<AffineExpr> out(maps[2].getResults());
  out.push_back(dim(column));
  llvm::SmallVector<AffineMap> new_maps = {AffineMap::get(loops + 1, 0, maps[0].getResults(), context),
                                           AffineMap::get(loops + 1, 0, {dim(n), dim(k), dim(column)}, context),
                                           AffineMap::get(loops + 1, 0, out, context)};
  llvm::SmallVector<IteratorType> iterators = op.getIteratorTypesArray();
  iterators.push_back(IteratorType::parallel);
  auto packed = GenericOp::create(builder, op.getLoc(), mlir::TypeRange{init.getType()}, mlir::ValueRange{left, panels},
                                  mlir::ValueRange{init}, new_maps, iterators);
  builder.cloneRegionBefore(op.getRegion(), packed.getRegion(), packed.getRegion().begin());
  Value result = mergeDimensions(builder, op.getLoc(), packed.getResult(0), output_type.getRank() - 1);
  // Cuts the fill off, after all followers that can compute it.
  if (fill_up) {
    llvm::SmallVector<mlir::OpFoldResult> zeros(output_type.getRank(), builder.getIndexAttr(0)),
        ones(output_type.getRank(), builder.getIndexAttr(1)), sizes;
    for (int64_t extent : output_type.getShape()) sizes.push_back(builder.getIndexAttr(extent));
    auto cut = mlir::tensor::ExtractSliceOp::create(builder, op.getLoc(), result, zeros, sizes, ones);
    op.getResult(0).replaceAllUsesWith(cut.getResult());
    op.erase();
    const llvm::ArrayRef<int64_t> whole = cut.getSourceType().getShape();
    while (GenericOp follower = followerOf(cut.getResult(), whole)) cut = sinkSlice(follower, cut);
    return true;
  }
  op.getResult(0).replaceAllUsesWith(result);
  op.erase();
  return true;
}

}  // namespace

int packMatmuls(mlir::func::FuncOp main, const Chip& chip) {
  int count = 0;
  // The list is made first, because packing a product may rebuild its followers.
  for (GenericOp op : llvm::to_vector(llvm::make_filter_range(main.getBody().front().getOps<GenericOp>(), isProduct)))
    count += packMatmul(op, chip);
  return count;
}

}  // namespace tessera::compiler
