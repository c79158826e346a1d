#include "compiler/graph/rewrites/narrow_pads.h"

#include "compiler/graph/layout/channel_layout.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::tensor::CollapseShapeOp;
using mlir::tensor::ExpandShapeOp;
using mlir::tensor::PadOp;

/// Returns the type without the unit dimensions that the padding keeps.
RankedTensorType without(llvm::ArrayRef<bool> left_out, RankedTensorType type) {
  llvm::SmallVector<int64_t> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!left_out[d]) shape.push_back(type.getDimSize(d));
  return RankedTensorType::get(shape, type.getElementType());
}

/// Whether `narrow` is the type of the view's side with fewer dimensions.
bool narrowsTo(mlir::Operation* view, RankedTensorType narrow) {
  if (auto expand = mlir::dyn_cast_or_null<ExpandShapeOp>(view)) return expand.getSrcType() == narrow;
  if (auto collapse = mlir::dyn_cast_or_null<CollapseShapeOp>(view)) return collapse.getResultType() == narrow;
  return false;
}

bool narrow(PadOp pad) {
  const RankedTensorType from = pad.getSourceType(), to = pad.getResultType();
  Value with = pad.getConstantPaddingValue();
  if (!with || !pad.getLow().empty() || !pad.getHigh().empty() || !from.hasStaticShape() || !to.hasStaticShape())
    return false;
  llvm::SmallVector<bool> left_out;
  llvm::SmallVector<int64_t> low, high;
  for (int64_t d = 0; d < to.getRank(); ++d) {
    left_out.push_back(d > 0 && to.getDimSize(d) == 1);
    if (left_out.back()) continue;
    low.push_back(pad.getStaticLow()[d]);
    high.push_back(pad.getStaticHigh()[d]);
  }
  const RankedTensorType source_type = without(left_out, from), type = without(left_out, to);
  const bool seen = narrowsTo(pad.getSource().getDefiningOp(), source_type) ||
                    llvm::any_of(pad->getUsers(), [&](mlir::Operation* user) { return narrowsTo(user, type); });
  if (source_type == from || !seen) return false;
  OpBuilder b(pad);
  Value source = reshapeView(b, pad.getLoc(), pad.getSource(), source_type.getShape());
  Value padded = PadOp::create(b, pad.getLoc(), type, source, mlir::getAsIndexOpFoldResult(b.getContext(), low),
                               mlir::getAsIndexOpFoldResult(b.getContext(), high), with);
  pad.getResult().replaceAllUsesWith(reshapeView(b, pad.getLoc(), padded, to.getShape()));
  pad.erase();
  return true;
}

}  // namespace

int dropUnitPadDimensions(mlir::func::FuncOp main) {
  int count = 0;
  for (auto pad : llvm::make_early_inc_range(main.getBody().front().getOps<PadOp>())) count += narrow(pad);
  return count;
}

}  // namespace tessera::compiler
