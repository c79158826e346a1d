#include "compiler/graph/rewrites/lower_to_int8_matmul.h"

#include "compiler/graph/analysis/each_element.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/rewrites/shifted_operand.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/tile_product.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

/// Returns the loop that alone indexes a dimension of an operand, or nothing.
std::optional<unsigned> loopOf(mlir::AffineExpr expression) {
  auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(expression);
  return dim ? std::optional(dim.getPosition()) : std::nullopt;
}

/// Whether an expression is a sum of loops with constant factors.
bool isSumOfLoops(mlir::AffineExpr expression) {
  using Kind = mlir::AffineExprKind;
  if (expression.getKind() == Kind::DimId || expression.getKind() == Kind::Constant) return true;
  auto binary = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  return binary && (binary.getKind() == Kind::Add || binary.getKind() == Kind::Mul) && isSumOfLoops(binary.getLHS()) &&
         isSumOfLoops(binary.getRHS());
}

/// Whether `value` depends on weights and constants alone. Operations in `seen` were already found to.
bool isKnown(Value value, llvm::SmallPtrSetImpl<mlir::Operation*>& seen) {
  mlir::Operation* op = value.getDefiningOp();
  if (!op || isKnownAtCompileTime(value)) return isKnownAtCompileTime(value);
  if (!seen.insert(op).second) return true;  // an unknown operation would have ended the search
  return op->getNumOperands() > 0 && op->getNumRegions() <= 1 && llvm::all_of(op->getOperands(), [&](Value operand) {
           auto* producer = operand.getDefiningOp();
           return (producer && mlir::isa<mlir::tensor::EmptyOp>(producer)) || isKnown(operand, seen);
         });
}
bool isKnown(Value value) {
  llvm::SmallPtrSet<mlir::Operation*, 8> seen;
  return isKnown(value, seen);
}

/// The signedness that an instruction requires of a product's operands.
struct Signs {
  bool first = false, second = false;
};

class Narrower {
 public:
  Narrower(GenericOp op, ShiftedOperand x, ShiftedOperand w)
      : op_(op),
        b_(op),
        maps_(op.getIndexingMapsArray()),
        kinds_(op.getIteratorTypesArray()),
        extents_(op.getStaticLoopRanges()),
        operands_{x, w} {}

  /// Flips sign bits so that the operands, in either order, match one of `wanted`, with the fewest corrections. With
  /// `any`, only if that costs no more than the present signs.
  bool adopt(llvm::ArrayRef<Signs> wanted, bool any) {
    std::optional<std::pair<int, Signs>> best;
    const Signs own{operands_[0].is_signed, operands_[1].is_signed};
    // Without instructions for bytes the present signs cost nothing.
    if (wanted.empty()) best = {0, own};
    // The instruction for pairs takes any signs, at one step more.
    if (const auto price = any ? priceOf(own) : std::nullopt) best = {*price + 1, own};
    for (const Signs& each : wanted)
      // A product may exchange its operands.
      for (const Signs& signs : {each, Signs{each.second, each.first}}) {
        const auto price = priceOf(signs);
        if (price && (!best || *price < best->first)) best = {*price, signs};
      }
    if (!best || !priceOf(best->second)) return false;
    // For floats, the scales must be applicable to the exact sum.
    for (int i : {0, 1})
      if (operands_[i].scale && operands_[i].scale->tensor && !isParallel(i, operands_[i].scale->map)) return false;
    signs_ = best->second;
    return true;
  }

  void run() {
    const bool turn[] = {turned(0, signs_), turned(1, signs_)};
    for (int i : {0, 1}) {
      if (!turn[i]) continue;
      // Flipping the sign bit moves all elements by 128, and so moves the zero point.
      operands_[i].zero.constant += operands_[i].is_signed ? 128 : -128;
      operands_[i].is_signed = !operands_[i].is_signed;
      // Weights are flipped at compile time, activations as they are loaded.
      flipped_[i] = !isKnown(operands_[i].elements);
      if (!flipped_[i])
        operands_[i].elements = mapElements(b_, op_.getLoc(), operands_[i].elements, b_.getI8Type(), flipSignBit);
    }
    Value product = product8();
    if (!operands_[0].zero.isZero() || !operands_[1].zero.isZero()) product = corrected(product);
    if (operands_[0].scale) product = scaled(product);
    op_.getResult(0).replaceAllUsesWith(product);
    op_.erase();
  }

 private:
  bool turned(int i, const Signs& signs) const {
    return operands_[i].is_signed != (i == 0 ? signs.first : signs.second);
  }

  bool zeroWith(int i, const Signs& signs) const {
    const ZeroPoint& zero = operands_[i].zero;
    const int64_t by = !turned(i, signs) ? 0 : operands_[i].is_signed ? 128 : -128;
    return !zero.tensor && zero.constant + by == 0;
  }

  /// Returns the cost of the corrections; nothing if they are impossible.
  std::optional<int> priceOf(const Signs& signs) const {
    int price = 0;
    for (int i : {0, 1}) {
      const bool known = isKnown(operands_[i].elements);
      if (turned(i, signs) && !known) ++price;
      // Without zero point there is nothing to correct for this operand.
      if (zeroWith(i, signs)) continue;
      if (!canSum(1 - i) || !zeroIsParallel(i)) return std::nullopt;
      // The other operand must be summed, at run time if it is unknown.
      price += isKnown(operands_[1 - i].elements) ? 1 : 4;
    }
    return price;
  }

  /// Whether the sum over all steps of operand `i` is a sum over its own dimensions, or over windows that slide along
  /// them.
  bool canSum(int i) const {
    // The correction needs the operand's sum as a tensor over dimensions of the result.
    if (!llvm::all_of(maps_[i].getResults(), isSumOfLoops)) return false;
    for (auto [loop, kind] : llvm::enumerate(kinds_)) {
      const bool walks = maps_[i].isFunctionOfDim(static_cast<unsigned>(loop));
      if (kind == IteratorType::reduction && extents_[loop] != 1 && !walks) return false;
      if (kind == IteratorType::parallel && walks && !placeOf(static_cast<unsigned>(loop))) return false;
    }
    return true;
  }

  /// Whether a dimension of operand `i` is indexed by a reduction loop alone.
  bool sumsAlone(int i, unsigned dimension) const {
    const auto loop = loopOf(maps_[i].getResult(dimension));
    if (!loop || kinds_[*loop] != IteratorType::reduction) return false;
    return llvm::count_if(maps_[i].getResults(), [&](mlir::AffineExpr each) { return each.isFunctionOfDim(*loop); }) ==
           1;
  }

  /// Whether the zero point of operand `i` is constant along the sum.
  bool zeroIsParallel(int i) const { return !operands_[i].zero.tensor || isParallel(i, operands_[i].zero.map); }

  bool isParallel(int i, AffineMap map) const {
    return llvm::all_of(map.getResults(), [&](mlir::AffineExpr expression) {
      if (mlir::isa<mlir::AffineConstantExpr>(expression)) return true;
      const auto dimension = loopOf(expression);
      const auto loop = dimension ? loopOf(maps_[i].getResult(*dimension)) : std::nullopt;
      return loop && placeOf(*loop);
    });
  }

  /// Returns the dimension of the result that a loop indexes.
  std::optional<unsigned> placeOf(unsigned loop) const {
    for (auto [d, expression] : llvm::enumerate(maps_[2].getResults()))
      if (loopOf(expression) == loop) return static_cast<unsigned>(d);
    return std::nullopt;
  }

  /// Returns an element of operand `i` in 32 bits.
  Value widened(OpBuilder& b, mlir::Location at, int i, Value element) const {
    if (flipped_[i]) element = flipSignBit(b, at, element);
    return extended(b, at, element, operands_[i].is_signed);
  }
  static Value extended(OpBuilder& b, mlir::Location at, Value element, bool is_signed) {
    if (is_signed) return arith::ExtSIOp::create(b, at, b.getI32Type(), element);
    return arith::ExtUIOp::create(b, at, b.getI32Type(), element);
  }

  Value product8() {
    Value init = op_.getDpsInits()[0];
    auto type = mlir::cast<RankedTensorType>(init.getType());
    // Floats are summed as integers first and scaled afterwards.
    if (operands_[0].scale) {
      Value zero = arith::ConstantOp::create(b_, op_.getLoc(), b_.getI32IntegerAttr(0));
      Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), type.getShape(), b_.getI32Type());
      init = mlir::linalg::FillOp::create(b_, op_.getLoc(), zero, empty).getResult(0);
    }
    return GenericOp::create(
               b_, op_.getLoc(), mlir::TypeRange{init.getType()},
               mlir::ValueRange{operands_[0].elements, operands_[1].elements}, mlir::ValueRange{init}, maps_, kinds_,
               [&](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
                 Value x = widened(b, at, 0, v[0]), w = widened(b, at, 1, v[1]);
                 Value term = arith::MulIOp::create(b, at, x, w);
                 mlir::linalg::YieldOp::create(b, at, arith::AddIOp::create(b, at, v[2], term).getResult());
               })
        .getResult(0);
  }

  /// A tensor, and the map from the result's dimensions to the tensor's.
  using Placed = std::pair<Value, AffineMap>;

  AffineMap resultMap(llvm::ArrayRef<unsigned> loops) {
    llvm::SmallVector<mlir::AffineExpr> places;
    for (unsigned loop : loops) places.push_back(b_.getAffineDimExpr(*placeOf(loop)));
    return AffineMap::get(maps_[2].getNumResults(), 0, places, b_.getContext());
  }

  /// Sums operand `i` over the steps of the sum: first dimensions indexed by one loop, then windows.
  Placed sumOf(int i) {
    llvm::SmallVector<IteratorType> kinds;
    llvm::SmallVector<mlir::AffineExpr> results, left;  // remaining dimensions, and their access expressions
    llvm::SmallVector<int64_t> shape;
    const auto type = mlir::cast<RankedTensorType>(operands_[i].elements.getType());
    for (auto [d, expression] : llvm::enumerate(maps_[i].getResults())) {
      kinds.push_back(sumsAlone(i, static_cast<unsigned>(d)) ? IteratorType::reduction : IteratorType::parallel);
      if (kinds.back() == IteratorType::reduction) continue;
      results.push_back(b_.getAffineDimExpr(d));
      left.push_back(expression);
      shape.push_back(type.getDimSize(static_cast<int64_t>(d)));
    }
    const auto rank = static_cast<unsigned>(kinds.size());
    auto sum =
        GenericOp::create(b_, op_.getLoc(), mlir::TypeRange{RankedTensorType::get(shape, b_.getI32Type())},
                          mlir::ValueRange{operands_[i].elements}, mlir::ValueRange{zeros(shape)},
                          {b_.getMultiDimIdentityMap(rank), AffineMap::get(rank, 0, results, b_.getContext())}, kinds,
                          [&](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
                            Value wide = widened(b, at, i, v[0]);
                            mlir::linalg::YieldOp::create(b, at, arith::AddIOp::create(b, at, v[1], wide).getResult());
                          });
    // Plain dimensions only: the sum is complete. Otherwise the windows are summed next.
    if (llvm::all_of(left, [&](mlir::AffineExpr each) { return each.getKind() == mlir::AffineExprKind::DimId; })) {
      llvm::SmallVector<unsigned> kept;
      for (mlir::AffineExpr expression : left) kept.push_back(*loopOf(expression));
      return {sum.getResult(0), resultMap(kept)};
    }
    return windowSums(sum.getResult(0), left);
  }

  /// Returns the sums over the windows in which `walked` indexes the dimensions of `tensor`. The window itself is an
  /// operand without data, as in linalg's pools.
  Placed windowSums(Value tensor, llvm::ArrayRef<mlir::AffineExpr> walked) {
    llvm::SmallVector<unsigned> kept, summed;
    for (unsigned loop = 0; loop < kinds_.size(); ++loop)
      if (llvm::any_of(walked, [&](mlir::AffineExpr each) { return each.isFunctionOfDim(loop); }))
        (kinds_[loop] == IteratorType::parallel ? kept : summed).push_back(loop);
    // Renumbers the loops that occur in these windows.
    llvm::SmallVector<mlir::AffineExpr> renamed(kinds_.size(), b_.getAffineConstantExpr(0)), out, window;
    llvm::SmallVector<int64_t> shape, extent;
    llvm::SmallVector<IteratorType> kinds;
    for (unsigned loop : kept) {
      out.push_back(renamed[loop] = b_.getAffineDimExpr(kinds.size()));
      kinds.push_back(IteratorType::parallel);
      shape.push_back(extents_[loop]);
    }
    for (unsigned loop : summed) {
      window.push_back(renamed[loop] = b_.getAffineDimExpr(kinds.size()));
      kinds.push_back(IteratorType::reduction);
      extent.push_back(extents_[loop]);
    }
    const auto loops = static_cast<unsigned>(kinds.size());
    auto mapTo = [&](llvm::ArrayRef<mlir::AffineExpr> to) { return AffineMap::get(loops, 0, to, b_.getContext()); };
    const AffineMap read =
        AffineMap::get(kinds_.size(), 0, walked, b_.getContext()).replaceDimsAndSymbols(renamed, {}, loops, 0);
    Value extents = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), extent, b_.getI32Type());
    auto sums = GenericOp::create(
        b_, op_.getLoc(), mlir::TypeRange{RankedTensorType::get(shape, b_.getI32Type())},
        mlir::ValueRange{tensor, extents}, mlir::ValueRange{zeros(shape)}, {read, mapTo(window), mapTo(out)}, kinds,
        [](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
          mlir::linalg::YieldOp::create(b, at, arith::AddIOp::create(b, at, v[2], v[0]).getResult());
        });
    return {sums.getResult(0), resultMap(kept)};
  }

  Value zeros(llvm::ArrayRef<int64_t> shape) {
    Value zero = arith::ConstantOp::create(b_, op_.getLoc(), b_.getI32IntegerAttr(0));
    Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), shape, b_.getI32Type());
    return mlir::linalg::FillOp::create(b_, op_.getLoc(), zero, empty).getResult(0);
  }

  /// Places a tensor over dimensions of operand `i`.
  Placed placed(int i, Value tensor, AffineMap map) {
    llvm::SmallVector<mlir::AffineExpr> places;
    for (mlir::AffineExpr expression : map.getResults()) {
      const auto dimension = loopOf(expression);
      places.push_back(dimension ? b_.getAffineDimExpr(*placeOf(*loopOf(maps_[i].getResult(*dimension)))) : expression);
    }
    return {tensor, AffineMap::get(maps_[2].getNumResults(), 0, places, b_.getContext())};
  }

  /// Multiplies the exact sum by both scales.
  Value scaled(Value sum) {
    auto type = mlir::RankedTensorType::get(mlir::cast<RankedTensorType>(sum.getType()).getShape(), b_.getF32Type());
    llvm::SmallVector<Value> inputs = {sum};
    llvm::SmallVector<AffineMap> maps = {b_.getMultiDimIdentityMap(type.getRank())};
    for (int i : {0, 1}) {
      if (!operands_[i].scale->tensor) continue;
      const auto [tensor, map] = placed(i, operands_[i].scale->tensor, operands_[i].scale->map);
      inputs.push_back(tensor);
      maps.push_back(map);
    }
    maps.push_back(maps[0]);
    Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), type.getShape(), type.getElementType());
    return GenericOp::create(b_, op_.getLoc(), mlir::TypeRange{type}, inputs, mlir::ValueRange{empty}, maps,
                             llvm::SmallVector<IteratorType>(type.getRank(), IteratorType::parallel),
                             [&](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
                               Value real = arith::SIToFPOp::create(b, at, b.getF32Type(), v[0]);
                               unsigned next = 1;
                               // One scale after the other, because the product of two small scales could underflow to
                               // zero.
                               for (int i : {0, 1}) {
                                 Value scale = operands_[i].scale->tensor ? v[next++] : constantScale(b, at, i);
                                 real = arith::MulFOp::create(b, at, real, scale);
                               }
                               mlir::linalg::YieldOp::create(b, at, real);
                             })
        .getResult(0);
  }
  Value constantScale(OpBuilder& b, mlir::Location at, int i) const {
    return arith::ConstantOp::create(b, at, b.getF32FloatAttr(operands_[i].scale->constant));
  }

  /// Subtracts the zero points' contribution from the product.
  Value corrected(Value product) {
    auto type = mlir::cast<RankedTensorType>(product.getType());
    llvm::SmallVector<Value> inputs = {product};
    llvm::SmallVector<AffineMap> maps = {b_.getMultiDimIdentityMap(type.getRank())};
    auto add = [&](const Placed& placed) {
      inputs.push_back(placed.first);
      maps.push_back(placed.second);
      return static_cast<int>(inputs.size()) - 1;
    };
    int zero[] = {-1, -1}, sum[] = {-1, -1};  // of operand i: its zero point, and the sum of the other operand
    // (x - zx) * (w - zw) = x * w - zx * w - zw * x + zx * zw, each term summed.
    for (int i : {0, 1}) {
      if (operands_[i].zero.isZero()) continue;
      sum[i] = add(sumOf(1 - i));
      if (operands_[i].zero.tensor) zero[i] = add(placed(i, operands_[i].zero.tensor, operands_[i].zero.map));
    }
    // The number of steps multiplies the last term.
    int64_t steps = 1;
    for (auto [loop, kind] : llvm::enumerate(kinds_))
      if (kind == IteratorType::reduction) steps *= extents_[loop];
    maps.push_back(b_.getMultiDimIdentityMap(type.getRank()));
    Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), type.getShape(), type.getElementType());
    return GenericOp::create(
               b_, op_.getLoc(), mlir::TypeRange{type}, inputs, mlir::ValueRange{empty}, maps,
               llvm::SmallVector<IteratorType>(type.getRank(), IteratorType::parallel),
               [&](OpBuilder& b, mlir::Location at, mlir::ValueRange v) {
                 auto constant = [&](int64_t value) -> Value {
                   return arith::ConstantOp::create(b, at, b.getI32IntegerAttr(static_cast<int32_t>(value)));
                 };
                 Value points[2];
                 Value all = v[0];
                 for (int i : {0, 1}) {
                   const ZeroPoint& point = operands_[i].zero;
                   if (point.isZero()) continue;
                   points[i] = constant(point.constant);
                   if (point.tensor) {
                     Value element = extended(b, at, v[zero[i]], point.is_signed);
                     points[i] =
                         point.constant == 0 ? element : arith::AddIOp::create(b, at, element, points[i]).getResult();
                   }
                   Value term = arith::MulIOp::create(b, at, v[sum[i]], points[i]);
                   all = arith::SubIOp::create(b, at, all, term);
                 }
                 if (points[0] && points[1]) {
                   Value both = arith::MulIOp::create(b, at, points[0], points[1]);
                   both = arith::MulIOp::create(b, at, both, constant(steps));
                   all = arith::AddIOp::create(b, at, all, both);
                 }
                 mlir::linalg::YieldOp::create(b, at, all);
               })
        .getResult(0);
  }

  GenericOp op_;
  OpBuilder b_;
  llvm::SmallVector<AffineMap> maps_;
  llvm::SmallVector<IteratorType> kinds_;
  llvm::SmallVector<int64_t> extents_;
  ShiftedOperand operands_[2];
  bool flipped_[2] = {false, false};
  Signs signs_;
};

/// Whether the sum starts from zero and cannot overflow 32 bits, so that an exact sum can replace it.
bool startsFromZero(GenericOp op) {
  auto fill = op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>();
  return fill && mlir::matchPattern(fill.getInputs()[0], mlir::m_AnyZeroFloat());
}
bool fitsIn32Bits(GenericOp op) {
  // Sums of the largest products must stay within 32 bits.
  constexpr double kMost = 2147483648.0, kLargestProduct = 255.0 * 255.0;
  double most = kLargestProduct;
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray()))
    if (kind == IteratorType::reduction) most *= static_cast<double>(op.getStaticLoopRanges()[loop]);
  return most < kMost;
}

bool writesEachOnce(GenericOp op) {
  const AffineMap out = op.getIndexingMapsArray()[2];
  return out.isProjectedPermutation() && out.getNumResults() == op.getNumParallelLoops();
}

/// Whether rows, columns and the sum, each along one loop, fill at least half a tile; otherwise vectors are faster.
bool fills(GenericOp op, const TileProduct& tile) {
  const auto maps = op.getIndexingMapsArray();
  int64_t own[2] = {0, 0}, sum = 0;
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    const int64_t extent = op.getStaticLoopRanges()[loop];
    const bool reads[] = {maps[0].isFunctionOfDim(loop), maps[1].isFunctionOfDim(loop)};
    if (kind == IteratorType::reduction && reads[0] && reads[1]) sum = std::max(sum, extent);
    for (int i : {0, 1})
      if (kind == IteratorType::parallel && reads[i] && !reads[1 - i]) own[i] = std::max(own[i], extent);
  }
  // The instruction decides which operand supplies the rows.
  return 2 * std::min(own[0], own[1]) >= std::max(tile.rows, tile.columns) && 2 * sum >= tile.depth;
}

}  // namespace

int lowerToInt8Matmul(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights,
                      llvm::ArrayRef<CodeFacts::ByteFactors> blocks) {
  llvm::SmallVector<GenericOp> products;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    if (!isMultiplyAccumulate(op) || !writesEachOnce(op)) continue;
    const mlir::Type sum = op.getBody()->getArgument(2).getType();
    if (sum.isInteger(32) || (sum.isF32() && startsFromZero(op) && fitsIn32Bits(op))) products.push_back(op);
  }
  if (products.empty()) return 0;
  ConstantEvaluator constants = knownWeights(main, weights);
  llvm::SmallVector<Signs> signs;
  for (const DotProduct& each : chip.dotProducts())
    // The signs that the chip's instructions take, best first.
    if (each.bits == 8) signs.push_back({each.first_signed, each.second_signed});
  for (const CodeFacts::ByteFactors& each : blocks) signs.push_back({each.first_signed, each.second_signed});
  const bool any = chip.multipliesPairs();  // supports any signs, in two halves
  if (any) signs.push_back({.first = false, .second = true});
  int count = 0;
  for (GenericOp op : products) {
    OpBuilder builder(op);
    auto x = shiftedOperand(builder, op.getDpsInputs()[0], constants);
    auto w = x ? shiftedOperand(builder, op.getDpsInputs()[1], constants) : std::nullopt;
    if (!x || !w || x->scale.has_value() != w->scale.has_value()) continue;
    Narrower narrower(op, *x, *w);
    llvm::SmallVector<Signs> wanted;
    // Tiles are the fastest, so their signs are tried first.
    for (const TileProduct& each : chip.tileProducts())
      if (!each.floating && fills(op, each)) wanted.push_back({each.first_signed, each.second_signed});
    wanted.append(signs);
    if (!narrower.adopt(wanted, any)) continue;
    narrower.run();
    ++count;
  }
  return count;
}

}  // namespace tessera::compiler
