#include "compiler/graph/rewrites/prune_padding_taps.h"

#include <algorithm>
#include <optional>

#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/plain_pad.h"
#include "compiler/graph/analysis/window_access.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using mlir::OpBuilder;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::PadOp;
using Extents = llvm::SmallVector<int64_t>;

/// Whether the padding is with zeros and its operand has static extents.
bool padsWithZeros(PadOp pad) {
  return pad && isConstantPad(pad) && mlir::matchPattern(pad.getConstantPaddingValue(), mlir::m_AnyZeroFloat()) &&
         pad.getSourceType().hasStaticShape();
}

/// Returns the taps that read an unpadded element at some position of the window; nothing if none does.
std::optional<Taps> busyTaps(const WindowAccess& access, PadOp pad, llvm::ArrayRef<int64_t> extents) {
  const int64_t low = pad.getStaticLow()[access.dimension];
  const int64_t end = low + pad.getSourceType().getDimSize(access.dimension);
  std::optional<Taps> busy;
  for (int64_t tap = 0; tap < extents[access.tap_loop]; ++tap) {
    bool meets = false;
    for (int64_t place = 0; place < extents[access.window_loop] && !meets; ++place) {
      const int64_t index = (access.stride * place) + (access.dilation * tap);
      meets = index >= low && index < end;
    }
    if (!meets) continue;
    if (!busy) busy = Taps{.first = tap};
    busy->last = tap;
  }
  return busy;
}

/// Returns elements [first, first + count) of a padded value along one dimension, with only the padding that this range
/// needs.
Value partOf(OpBuilder& b, PadOp pad, unsigned dimension, int64_t first, int64_t count) {
  const int64_t begin = first - pad.getStaticLow()[dimension];  // in the unpadded operand
  const int64_t extent = pad.getSourceType().getDimSize(dimension);
  const int64_t from = std::clamp<int64_t>(begin, 0, extent), to = std::clamp<int64_t>(begin + count, from, extent);
  Extents low(pad.getStaticLow()), high(pad.getStaticHigh()), shape(pad.getResultType().getShape());
  low[dimension] = std::max<int64_t>(0, -begin);
  high[dimension] = count - low[dimension] - (to - from);
  shape[dimension] = count;
  Value source = sliced(b, pad.getSource(), dimension, from, to - from);
  auto none = [](int64_t amount) { return amount == 0; };
  if (llvm::all_of(low, none) && llvm::all_of(high, none)) return source;
  auto type = mlir::RankedTensorType::get(shape, pad.getResultType().getElementType());
  return PadOp::create(b, pad.getLoc(), type, source, mlir::getAsIndexOpFoldResult(b.getContext(), low),
                       mlir::getAsIndexOpFoldResult(b.getContext(), high), pad.getConstantPaddingValue());
}

/// Restricts the operation to these taps of a window.
void keep(GenericOp op, const WindowAccess& access, Taps taps, llvm::ArrayRef<std::pair<unsigned, unsigned>> along) {
  OpBuilder b(op);
  const Extents extents = op.getStaticLoopRanges();
  auto pad = op.getDpsInputs()[access.operand].getDefiningOp<PadOp>();
  op->setOperand(access.operand,
                 partOf(b, pad, access.dimension, access.dilation * taps.first, access.span(extents, taps)));
  for (auto [operand, dimension] : along) {
    op->setOperand(operand, sliced(b, op->getOperand(operand), dimension, taps.first, taps.count()));
  }
  if (pad->use_empty()) pad->erase();
}

int dropFrom(GenericOp op) {
  int count = 0;
  for (unsigned operand = 0; operand < op.getNumDpsInputs(); ++operand) {
    const int64_t rank = op.getIndexingMapsArray()[operand].getNumResults();
    for (unsigned dimension = 0; dimension < rank; ++dimension) {
      auto pad = op.getDpsInputs()[operand].getDefiningOp<PadOp>();
      if (!padsWithZeros(pad)) break;
      const std::optional<WindowAccess> access = windowAccessOf(op, operand, dimension);
      const Extents extents = op.getStaticLoopRanges();
      if (!access || llvm::any_of(extents, mlir::ShapedType::isDynamic)) continue;
      const std::optional<Taps> busy = busyTaps(*access, pad, extents);
      const auto along = operandsIndexedByTap(op, *access);
      if (!busy || !along || along->empty() || busy->count() == extents[access->tap_loop]) continue;
      keep(op, *access, *busy, *along);
      ++count;
    }
  }
  return count;
}

}  // namespace

int prunePaddingTaps(mlir::func::FuncOp main) {
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    if (isProduct(op) && op->getNumResults() == 1) count += dropFrom(op);
  }
  return count;
}

}  // namespace tessera::compiler
