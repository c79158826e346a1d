#include "compiler/graph/winograd/whole_blocks.h"

#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/layout/whole_block_readers.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::ExtractSliceOp;

/// Whether the slice takes a stage's result from its first row and column on, and the result has no other reader.
bool cutsWholeBlocks(ExtractSliceOp slice) {
  mlir::Operation* stage = slice.getSource().getDefiningOp();
  // Nothing else may read the stage's result or the slice.
  return stage && stage->hasAttr(kStageOf) && stage->hasOneUse() && slice->hasOneUse() && slice.hasZeroOffset() &&
         slice.hasUnitStride() && slice.getSourceType().getRank() == slice.getType().getRank() &&
         slice.getType().hasStaticShape();
}

/// Whether all readers can read a slice of a larger tensor in place. A concatenation and the caller would copy it,
/// which is the pass to be saved.
bool readInPlace(Value value) {
  return llvm::all_of(value.getUsers(), [](mlir::Operation* user) {
    if (auto view = mlir::dyn_cast<mlir::tensor::ExpandShapeOp>(user)) return readInPlace(view.getResult());
    return mlir::isa<mlir::linalg::LinalgOp, mlir::tensor::PadOp>(user);
  });
}

}  // namespace

int sinkSlicePastElementwise(mlir::func::FuncOp main) {
  int count = 0;
  for (auto found : llvm::make_early_inc_range(main.getBody().front().getOps<ExtractSliceOp>())) {
    if (!cutsWholeBlocks(found)) continue;
    auto reader = mlir::dyn_cast<GenericOp>(*found->user_begin());
    // Computing beyond the cut must be possible and harmless.
    if (!reader || !canComputeWhole(reader, found.getResult(), found.getSourceType().getShape()) ||
        !readInPlace(reader.getResult(0)))
      continue;
    sinkSlice(reader, found);
    ++count;
  }
  return count;
}

int alignSlices(mlir::func::FuncOp main) {
  int count = 0;
  for (auto pad : llvm::make_early_inc_range(main.getBody().front().getOps<mlir::tensor::PadOp>())) {
    // Finds the stage that computes the padded value, through operations at the same points.
    mlir::Operation* producer = pad.getSource().getDefiningOp();
    for (int steps = 0; producer && !producer->hasAttr(kStageOf) && steps < 4; ++steps) {
      auto follower = mlir::dyn_cast<GenericOp>(producer);
      producer = nullptr;
      if (!follower || follower.getNumReductionLoops() > 0) break;
      // Looks for the stage among the operands.
      for (Value input : follower.getDpsInputs()) {
        if (mlir::Operation* before = input.getDefiningOp(); before && before->hasAttr(kSliceRows)) producer = before;
      }
    }
    auto block = producer ? producer->getAttrOfType<mlir::IntegerAttr>(kBlockRows) : mlir::IntegerAttr();
    Value with = pad.getConstantPaddingValue();
    if (!block || !with || !pad.getLow().empty() || !pad.getHigh().empty()) continue;
    const int64_t rank = pad.getType().getRank(), rows = rowsOf(pad.getType());
    // Moves the border down to a whole block, so that no slice of rows contains only a part of one.
    const int64_t low = pad.getStaticLow()[rows], more = ceilDiv(low, block.getInt()) * block.getInt() - low;
    if (low < 0 || more == 0) continue;
    OpBuilder b(pad);
    llvm::SmallVector<int64_t> shape(pad.getType().getShape()), lows(pad.getStaticLow()), offsets(rank, 0),
        ones(rank, 1);
    lows[rows] += more;
    shape[rows] += more;
    offsets[rows] = more;
    auto type = RankedTensorType::get(shape, pad.getType().getElementType());
    Value larger = mlir::tensor::PadOp::create(b, pad.getLoc(), type, pad.getSource(),
                                               mlir::getAsIndexOpFoldResult(b.getContext(), lows),
                                               mlir::getAsIndexOpFoldResult(b.getContext(), pad.getStaticHigh()), with);
    // Readers see the same tensor, as a slice of the larger one.
    Value same = mlir::tensor::ExtractSliceOp::create(
        b, pad.getLoc(), larger, mlir::getAsIndexOpFoldResult(b.getContext(), offsets),
        mlir::getAsIndexOpFoldResult(b.getContext(), pad.getType().getShape()),
        mlir::getAsIndexOpFoldResult(b.getContext(), ones));
    pad.getResult().replaceAllUsesWith(same);
    pad.erase();
    ++count;
  }
  return count;
}

}  // namespace tessera::compiler
