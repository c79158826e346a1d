#include "compiler/graph/layout/interleave_products.h"

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/each_element.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/layout/layout_cost.h"
#include "compiler/target/dot_product.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::OpBuilder;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

/// 16-bit integers per 32-bit sum.
constexpr int64_t kWidenedGroup = 2;

/// Returns the loop that alone indexes dimension `d` of an operand and occurs in no other dimension.
std::optional<unsigned> onlyLoop(AffineMap map, unsigned d) {
  auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
  if (!dim) return std::nullopt;
  for (unsigned other = 0; other < map.getNumResults(); ++other)
    if (other != d && map.getResult(other).isFunctionOfDim(dim.getPosition())) return std::nullopt;
  return dim.getPosition();
}

/// How a product is regrouped: along `loop`, which is the last dimension of operand 1 - `moved`.
struct Regrouping {
  unsigned moved = 1, loop = 0, dimension = 0;  ///< dimension: of the operand to interleave
  int64_t group = 0;
};

std::optional<Regrouping> regroupingOf(GenericOp op, unsigned input, int64_t group) {
  Regrouping found;
  found.group = group;
  found.moved = input;
  const auto maps = op.getIndexingMapsArray();
  const AffineMap other = maps[1 - input], moved = maps[input];
  // The other operand must have the summed loop last already; only one operand is moved.
  if (other.getNumResults() == 0) return std::nullopt;
  const auto loop = onlyLoop(other, other.getNumResults() - 1);
  if (!loop || op.getIteratorTypesArray()[*loop] != IteratorType::reduction) return std::nullopt;
  // Elements that fill up the last group must contribute zero.
  if (const int64_t steps = op.getStaticLoopRanges()[*loop]; steps < 2 || 2 * steps < found.group) return std::nullopt;
  // If both inputs flip sign bits, a fill of zeros is not zero for either.
  if (op.getStaticLoopRanges()[*loop] % found.group != 0 && flipsSignBit(op, 0) && flipsSignBit(op, 1))
    return std::nullopt;
  for (unsigned d = 0; d < moved.getNumResults(); ++d)
    if (onlyLoop(moved, d) == loop) {
      found.loop = *loop;
      found.dimension = d;
      return found;
    }
  return std::nullopt;
}

/// Returns the time of groups of `group` elements of `bits` bits relative to multiply-adds.
double groupedShare(const Chip& chip, int bits, int64_t group) {
  const auto tiles = LayoutCost(chip).tilesOf(bits);
  return 1 / std::max(static_cast<double>(group), tiles ? tiles->speed : 1);
}

/// Whether interleaving an operand at run time, and the copies that fill up its sums, cost less than multiply-adds
/// would.
bool paysCopies(GenericOp op, const Regrouping& by, const Chip& chip, int bits) {
  const LayoutCost prices(chip);
  const double saved =
      (1 - groupedShare(chip, bits, by.group)) * static_cast<double>(flopsOf(op)) / chip.operationsPerSecond() * 1e6;
  auto bytesOf = [&](unsigned input) {
    return mlir::cast<mlir::RankedTensorType>(op.getDpsInputs()[input].getType()).getNumElements() * bits / 8;
  };
  double copies = prices.pass(bytesOf(by.moved), /*turns=*/true);
  if (op.getStaticLoopRanges()[by.loop] % by.group != 0)
    copies += prices.pass(bytesOf(0), /*turns=*/false) + prices.pass(bytesOf(1), /*turns=*/false);
  return saved > copies;
}

/// Whether the operand is constant, or a conversion, padding or view of a constant.
bool isMadeOfConstants(Value operand) {
  if (isKnownAtCompileTime(operand)) return true;
  mlir::Operation* op = operand.getDefiningOp();
  if (!op || !mlir::isa<GenericOp, mlir::tensor::PadOp, mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op))
    return false;
  if (auto generic = mlir::dyn_cast<GenericOp>(op))
    return generic.getNumDpsInputs() == 1 && isMadeOfConstants(generic.getDpsInputs()[0]);
  return isMadeOfConstants(op->getOperand(0));
}

/// Returns the regrouping of a constant operand; otherwise that of an operand in the wrong order if copying it pays.
std::optional<Regrouping> regroupingOf(GenericOp op, const Chip& chip, int bits, int64_t group) {
  for (unsigned input : {1U, 0U})
    if (isMadeOfConstants(op.getDpsInputs()[input])) return regroupingOf(op, input, group);
  for (unsigned input : {1U, 0U}) {
    const auto by = regroupingOf(op, input, group);
    if (!by || by->dimension + 1 == op.getIndexingMapsArray()[input].getNumResults()) continue;
    if (paysCopies(op, *by, chip, bits)) return by;
  }
  return std::nullopt;
}

/// [.., K, ..] -> [.., K / group, .., group]
Value interleaved(OpBuilder& b, mlir::Location loc, Value operand, unsigned dimension, int64_t group) {
  Value split = splitDimension(b, loc, operand, dimension, group);
  const auto rank = mlir::cast<mlir::RankedTensorType>(split.getType()).getRank();
  llvm::SmallVector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d)
    if (d != static_cast<int64_t>(dimension) + 1) order.push_back(d);
  // Elements of a group become neighbours.
  order.push_back(dimension + 1);
  return transpose(b, loc, split, order);
}

void regroup(GenericOp op, const Regrouping& by) {
  OpBuilder b(op);
  auto maps = op.getIndexingMapsArray();
  const unsigned loops = maps[0].getNumDims(), other = 1 - by.moved;
  const int64_t steps = op.getStaticLoopRanges()[by.loop];
  const int64_t filled = (steps + by.group - 1) / by.group * by.group;
  llvm::SmallVector<Value> inputs(op.getDpsInputs());
  const auto rank = static_cast<int64_t>(maps[other].getNumResults());
  if (filled != steps) {
    inputs[by.moved] = padDimension(b, op.getLoc(), inputs[by.moved], by.dimension, filled);
    inputs[other] = padDimension(b, op.getLoc(), inputs[other], rank - 1, filled);
  }
  inputs[by.moved] = interleaved(b, op.getLoc(), inputs[by.moved], by.dimension, by.group);
  inputs[other] = splitDimension(b, op.getLoc(), inputs[other], rank - 1, by.group);
  // The loop now iterates over groups, and a new loop runs within a group.
  llvm::SmallVector<AffineMap> grouped;
  for (auto [i, map] : llvm::enumerate(maps)) {
    llvm::SmallVector<mlir::AffineExpr> results(map.getResults());
    if (i < 2) results.push_back(b.getAffineDimExpr(loops));
    grouped.push_back(AffineMap::get(loops + 1, 0, results, b.getContext()));
  }
  llvm::SmallVector<IteratorType> kinds = op.getIteratorTypesArray();
  kinds.push_back(IteratorType::reduction);
  auto written = GenericOp::create(b, op.getLoc(), op->getResultTypes(), inputs, op.getDpsInits(), grouped, kinds);
  written.getRegion().takeBody(op.getRegion());
  op.getResult(0).replaceAllUsesWith(written.getResult(0));
  op.erase();
}

/// Converts each element of `tensor` to single precision, flipping its sign bit first if the product does so.
Value inSingle(OpBuilder& b, mlir::Location loc, Value element, const NarrowInput& input) {
  if (input.flipped) element = flipSignBit(b, loc, element);
  if (input.is_signed) return arith::SIToFPOp::create(b, loc, b.getF32Type(), element);
  return arith::UIToFPOp::create(b, loc, b.getF32Type(), element);
}

void multiplyInSingle(GenericOp op) {
  OpBuilder b(op);
  const mlir::Location loc = op.getLoc();
  const auto [x, w] = *narrowProduct(op);
  const NarrowInput narrow[] = {x, w};
  llvm::SmallVector<Value> inputs(op.getDpsInputs());
  bool converted[2] = {};
  for (int i : {0, 1}) {
    // Weights are converted at compile time.
    converted[i] = isKnownAtCompileTime(inputs[i]);
    if (converted[i])
      inputs[i] = mapElements(
          b, loc, inputs[i], b.getF32Type(),
          [&](OpBuilder& inner, mlir::Location at, Value v) -> Value { return inSingle(inner, at, v, narrow[i]); });
  }
  // The sum is computed in f32 and converted at the end; staysExact() ensures that nothing is rounded.
  auto type = mlir::cast<mlir::RankedTensorType>(op.getResult(0).getType()).clone(b.getF32Type());
  Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
  Value empty = mlir::tensor::EmptyOp::create(b, loc, type.getShape(), b.getF32Type());
  Value init = mlir::linalg::FillOp::create(b, loc, zero, empty).getResult(0);
  Value sum = GenericOp::create(b, loc, mlir::TypeRange{type}, inputs, mlir::ValueRange{init},
                                op.getIndexingMapsArray(), op.getIteratorTypesArray(),
                                [&](OpBuilder& inner, mlir::Location at, mlir::ValueRange v) {
                                  Value factors[2];
                                  for (int i : {0, 1})
                                    factors[i] = converted[i] ? v[i] : inSingle(inner, at, v[i], narrow[i]);
                                  Value term = arith::MulFOp::create(inner, at, factors[0], factors[1]);
                                  mlir::linalg::YieldOp::create(
                                      inner, at, arith::AddFOp::create(inner, at, v[2], term).getResult());
                                })
                  .getResult(0);
  Value whole = mapElements(b, loc, sum, b.getI32Type(), [](OpBuilder& inner, mlir::Location at, Value v) -> Value {
    return arith::FPToSIOp::create(inner, at, inner.getI32Type(), v);
  });
  op.getResult(0).replaceAllUsesWith(whole);
  op.erase();
}

/// Whether all partial sums of the product are integers that single precision represents exactly.
bool staysExact(GenericOp op) {
  constexpr int64_t kExact = int64_t{1} << 24;
  const auto [x, w] = *narrowProduct(op);
  // The largest magnitudes: -128 with a sign, 255 without.
  auto largest = [](const NarrowInput& input) -> int64_t { return input.is_signed ? 128 : 255; };
  auto fill = op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>();
  if (!fill || !mlir::matchPattern(fill.getInputs()[0], mlir::m_Zero())) return false;
  int64_t most = largest(x) * largest(w);
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    if (kind != IteratorType::reduction) continue;
    if (op.getStaticLoopRanges()[loop] > kExact) return false;
    most *= op.getStaticLoopRanges()[loop];
    if (most > kExact) return false;
  }
  return true;
}

/// Whether both operands index the sum's last loop in groups, as the instruction requires.
bool isGrouped(GenericOp op, int64_t group) {
  const auto maps = op.getIndexingMapsArray();
  if (maps[0].getNumResults() == 0 || maps[1].getNumResults() == 0) return false;
  const auto x = onlyLoop(maps[0], maps[0].getNumResults() - 1), w = onlyLoop(maps[1], maps[1].getNumResults() - 1);
  return x && x == w && op.getStaticLoopRanges()[*x] % group == 0;
}

}  // namespace

int interleaveProducts(mlir::func::FuncOp main, const Chip& chip, int bits) {
  const int group = dotProductGroup(chip.dotProducts(), bits);
  if (group == 0) return 0;
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    // Widened products take pairs of 16 bits, 8-bit products groups of the chip's size, and bf16 pairs.
    const bool widened = bits == 8 && isWidenedProduct(op);
    if (bits == 8 ? !widened && !narrowProduct(op) : !isBf16Product(op)) continue;
    const auto by = regroupingOf(op, chip, widened ? 16 : bits, widened ? kWidenedGroup : group);
    if (!by) continue;
    regroup(op, *by);
    ++count;
  }
  return count;
}

std::optional<unsigned> interleavedDimension(GenericOp op, unsigned input, int64_t group) {
  const auto by = regroupingOf(op, input, group);
  return by ? std::optional(by->dimension) : std::nullopt;
}

double instructedShare(GenericOp op, const Chip& chip) {
  const bool narrow = narrowProduct(op).has_value();
  if (isWidenedProduct(op)) return isGrouped(op, kWidenedGroup) ? groupedShare(chip, 16, kWidenedGroup) : 1;
  if (!narrow && !isBf16Product(op)) return 1;
  const int bits = narrow ? 8 : 16, group = dotProductGroup(chip.dotProducts(), bits);
  return group > 0 && isGrouped(op, group) ? groupedShare(chip, bits, group) : 1;
}

int lowerInt8ToSingle(mlir::func::FuncOp main) {
  constexpr int64_t kGroup = 4;
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    if (!narrowProduct(op) || isGrouped(op, kGroup) || !staysExact(op)) continue;
    multiplyInSingle(op);
    ++count;
  }
  return count;
}

}  // namespace tessera::compiler
