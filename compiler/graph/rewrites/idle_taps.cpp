#include "compiler/graph/rewrites/idle_taps.h"

#include <algorithm>
#include <optional>

#include "compiler/graph/facts/multiply_accumulate.h"
#include "compiler/graph/facts/plain_pad.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::OpBuilder;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::ExtractSliceOp;
using mlir::tensor::PadOp;
using Extents = llvm::SmallVector<int64_t>;

/// One dimension of a padded operand as a window walks it: index = stride * place + apart * tap.
struct Walk {
  unsigned operand = 0, dimension = 0;
  unsigned place = 0, tap = 0;  ///< loops
  int64_t stride = 1, apart = 1;
};

/// Taps [first, last] of those that there are.
struct Taps {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first + 1; }
};

/// Of an operand whose extents are known.
bool padsWithZeros(PadOp pad) {
  return pad && isPlainPad(pad) && mlir::matchPattern(pad.getConstantPaddingValue(), mlir::m_AnyZeroFloat()) &&
         pad.getSourceType().hasStaticShape();
}

/// c of the term c * loop in a sum of such terms; nothing for another expression.
std::optional<int64_t> factorOf(AffineExpr index, unsigned loop) {
  if (auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(index)) return dim.getPosition() == loop ? 1 : 0;
  auto both = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(index);
  if (!both) return std::nullopt;
  const std::optional<int64_t> left = factorOf(both.getLHS(), loop);
  if (!left) return std::nullopt;
  if (index.getKind() == mlir::AffineExprKind::Add) {
    const std::optional<int64_t> right = factorOf(both.getRHS(), loop);
    return right ? std::optional(*left + *right) : std::nullopt;
  }
  auto factor = mlir::dyn_cast<mlir::AffineConstantExpr>(both.getRHS());
  return index.getKind() == mlir::AffineExprKind::Mul && factor ? std::optional(*left * factor.getValue())
                                                                : std::nullopt;
}

/// How the operation walks a dimension of an input, if it is a window there.
std::optional<Walk> walkOf(GenericOp op, unsigned operand, unsigned dimension) {
  const AffineExpr index = op.getIndexingMapsArray()[operand].getResult(dimension);
  Walk walk{.operand = operand, .dimension = dimension};
  int places = 0, taps = 0;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    if (!index.isFunctionOfDim(loop)) continue;
    const std::optional<int64_t> factor = factorOf(index, loop);
    if (!factor || *factor <= 0) return std::nullopt;
    const bool summed = op.getIteratorTypesArray()[loop] == mlir::utils::IteratorType::reduction;
    ++(summed ? taps : places);
    (summed ? walk.tap : walk.place) = loop;
    (summed ? walk.apart : walk.stride) = *factor;
  }
  return places == 1 && taps == 1 ? std::optional(walk) : std::nullopt;
}

/// The taps that meet an element of what is padded at some place of the window; nothing where none does.
std::optional<Taps> busyTaps(const Walk& walk, PadOp pad, llvm::ArrayRef<int64_t> extents) {
  const int64_t low = pad.getStaticLow()[walk.dimension];
  const int64_t end = low + pad.getSourceType().getDimSize(walk.dimension);
  std::optional<Taps> busy;
  for (int64_t tap = 0; tap < extents[walk.tap]; ++tap) {
    bool meets = false;
    for (int64_t place = 0; place < extents[walk.place] && !meets; ++place) {
      const int64_t index = (walk.stride * place) + (walk.apart * tap);
      meets = index >= low && index < end;
    }
    if (!meets) continue;
    if (!busy) busy = Taps{.first = tap};
    busy->last = tap;
  }
  return busy;
}

/// The inputs that a tap's loop walks beside the padded one, each along one dimension by itself (the weights).
std::optional<llvm::SmallVector<std::pair<unsigned, unsigned>>> alongTap(GenericOp op, const Walk& walk) {
  llvm::SmallVector<std::pair<unsigned, unsigned>> along;
  for (auto [operand, map] : llvm::enumerate(op.getIndexingMapsArray())) {
    for (auto [dimension, index] : llvm::enumerate(map.getResults())) {
      if (!index.isFunctionOfDim(walk.tap) || (operand == walk.operand && dimension == walk.dimension)) continue;
      if (operand == walk.operand || !mlir::isa<mlir::AffineDimExpr>(index)) return std::nullopt;
      along.emplace_back(operand, dimension);
    }
  }
  return along;
}

Value sliced(OpBuilder& b, Value value, unsigned dimension, int64_t first, int64_t count) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  Extents offsets(type.getRank(), 0), sizes(type.getShape());
  const Extents ones(type.getRank(), 1);
  offsets[dimension] = first;
  sizes[dimension] = count;
  if (llvm::ArrayRef<int64_t>(sizes) == type.getShape()) return value;
  return ExtractSliceOp::create(b, value.getLoc(), value, mlir::getAsIndexOpFoldResult(b.getContext(), offsets),
                                mlir::getAsIndexOpFoldResult(b.getContext(), sizes),
                                mlir::getAsIndexOpFoldResult(b.getContext(), ones));
}

/// Elements [first, first + count) of a padded value along one dimension: no more padding than that takes.
Value partOf(OpBuilder& b, PadOp pad, unsigned dimension, int64_t first, int64_t count) {
  const int64_t begin = first - pad.getStaticLow()[dimension];  // in what is padded
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

/// Leaves the operation these taps of a walk.
void keep(GenericOp op, const Walk& walk, Taps taps, llvm::ArrayRef<std::pair<unsigned, unsigned>> along) {
  OpBuilder b(op);
  const Extents extents = op.getStaticLoopRanges();
  auto pad = op.getDpsInputs()[walk.operand].getDefiningOp<PadOp>();
  const int64_t read = (walk.stride * (extents[walk.place] - 1)) + (walk.apart * (taps.count() - 1)) + 1;
  op->setOperand(walk.operand, partOf(b, pad, walk.dimension, walk.apart * taps.first, read));
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
      const std::optional<Walk> walk = walkOf(op, operand, dimension);
      const Extents extents = op.getStaticLoopRanges();
      if (!walk || llvm::any_of(extents, mlir::ShapedType::isDynamic)) continue;
      const std::optional<Taps> busy = busyTaps(*walk, pad, extents);
      const auto along = alongTap(op, *walk);
      if (!busy || !along || along->empty() || busy->count() == extents[walk->tap]) continue;
      keep(op, *walk, *busy, *along);
      ++count;
    }
  }
  return count;
}

}  // namespace

int dropIdleTaps(mlir::func::FuncOp main) {
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    if (isProduct(op) && op->getNumResults() == 1) count += dropFrom(op);
  }
  return count;
}

}  // namespace tessera::compiler
