#include "compiler/graph/rewrites/share_pads.h"

#include "compiler/graph/analysis/move_before.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/plain_pad.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::tensor::PadOp;

mlir::Attribute constantOf(PadOp pad) {
  mlir::Attribute constant;
  mlir::matchPattern(pad.getConstantPaddingValue(), mlir::m_Constant(&constant));
  return constant;
}

/// Whether `large` pads at least as much as `small` on every side, with the same constant.
bool covers(PadOp large, PadOp small) {
  if (constantOf(large) != constantOf(small)) return false;
  for (int64_t d = 0; d < large.getResultType().getRank(); ++d) {
    if (large.getStaticLow()[d] < small.getStaticLow()[d] || large.getStaticHigh()[d] < small.getStaticHigh()[d]) {
      return false;
    }
  }
  return true;
}

/// Returns the part of `pad`'s result from `margin` elements before the source on, with extents `shape`.
Value insideOf(PadOp pad, llvm::ArrayRef<int64_t> margin, llvm::ArrayRef<int64_t> shape) {
  mlir::OpBuilder b(pad->getContext());
  b.setInsertionPointAfter(pad);
  llvm::SmallVector<mlir::OpFoldResult> offsets, sizes, strides(shape.size(), b.getIndexAttr(1));
  for (auto [d, extent] : llvm::enumerate(shape)) {
    offsets.push_back(b.getIndexAttr(pad.getStaticLow()[d] - margin[d]));
    sizes.push_back(b.getIndexAttr(extent));
  }
  return mlir::tensor::ExtractSliceOp::create(b, pad.getLoc(), pad.getResult(), offsets, sizes, strides);
}

int share(Value value) {
  llvm::SmallVector<PadOp> pads;
  int others = 0;
  for (mlir::Operation* user : value.getUsers()) {
    if (auto pad = mlir::dyn_cast<PadOp>(user); pad && isConstantPad(pad)) {
      pads.push_back(pad);
    } else if (auto reader = mlir::dyn_cast<mlir::linalg::LinalgOp>(user);
               reader && !llvm::is_contained(reader.getDpsInits(), value)) {
      ++others;
    } else {
      return 0;
    }
  }
  if (pads.empty() || pads.size() + others < 2) return 0;
  auto shape = mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
  if (llvm::is_contained(shape, 0)) return 0;  // nothing inside to read
  PadOp largest = pads.front();
  for (PadOp pad : pads) {
    if (covers(pad, largest)) largest = pad;
  }
  largest->moveAfter(value.getDefiningOp());
  // Other operations may use its constant earlier, so it moves only if it comes later.
  if (mlir::Operation* with = largest.getConstantPaddingValue().getDefiningOp();
      with && with->getBlock() == largest->getBlock()) {
    moveBefore(with->getResult(0), value.getDefiningOp());
  }
  int count = 0;
  for (PadOp pad : pads) {
    if (pad == largest || !covers(largest, pad)) continue;
    pad.getResult().replaceAllUsesWith(insideOf(largest, pad.getStaticLow(), pad.getResultType().getShape()));
    pad.erase();
    ++count;
  }
  if (others > 0) {
    const llvm::SmallVector<int64_t> none(shape.size(), 0);
    Value inside = insideOf(largest, none, shape);
    value.replaceUsesWithIf(inside, [&](mlir::OpOperand& use) {
      const bool redirected = mlir::isa<mlir::linalg::LinalgOp>(use.getOwner());
      count += redirected;
      return redirected;
    });
  }
  return count;
}

}  // namespace

int sharePads(mlir::func::FuncOp main) {
  int count = 0;
  for (auto op : llvm::make_early_inc_range(main.getBody().front().getOps<mlir::linalg::LinalgOp>())) {
    if (kindOf(op) == OpKind::kCloned || op->getNumResults() != 1) continue;
    count += share(op->getResult(0));
  }
  return count;
}

}  // namespace tessera::compiler
