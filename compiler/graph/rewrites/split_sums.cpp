#include "compiler/graph/rewrites/split_sums.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/cost/load_balance.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/analysis/summary.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

constexpr char kSplitChoice[] = "split", kWhole[] = "whole";

/// A sum that can be split, with its properties.
struct Sum {
  GenericOp op;
  Operation* combiner = nullptr;  ///< operation of the body that adds a step to the accumulator
  mlir::TypedAttr neutral = {};   ///< neutral element of the combiner
  unsigned loop = 0;              ///< the loop that is split
  int64_t steps = 0;              ///< iterations of that loop
  int64_t results = 1;
  bool product = false;
};

/// Returns the operation of out = combiner(out, step), if the body reads out nowhere else.
Operation* combinerOf(GenericOp op) {
  Operation* combiner = op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  mlir::BlockArgument out = op.getBody()->getArguments().back();
  if (!combiner || combiner->getBlock() != op.getBody() || combiner->getNumOperands() != 2 || !out.hasOneUse())
    return nullptr;
  return llvm::is_contained(combiner->getOperands(), out) &&
                 mlir::isa<arith::AddFOp, arith::AddIOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
                           arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp, arith::MinUIOp,
                           arith::MulIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp>(combiner)
             ? combiner
             : nullptr;
}

/// Whether every operand is read several times: true for a product of two matrices, not for a matrix and a vector.
bool reusesAll(GenericOp op) {
  int64_t points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= extent;
  return llvm::all_of(op.getDpsInputs(), [&](Value input) {
    return mlir::cast<RankedTensorType>(input.getType()).getNumElements() < points;
  });
}

std::optional<Sum> sumOf(GenericOp op) {
  if (op.getNumReductionLoops() == 0 || op.getNumDpsInits() != 1 || op.hasIndexSemantics() || op->hasAttr(kStageOf) ||
      usesDotProductInstruction(op) || op.getNumDpsInputs() == 0)
    return std::nullopt;
  Sum sum{.op = op, .combiner = combinerOf(op), .product = reusesAll(op)};
  const AffineMap written = op.getIndexingMapsArray().back();
  auto type = mlir::dyn_cast<RankedTensorType>(op.getResult(0).getType());
  if (!sum.combiner || !written.isProjectedPermutation() || !type || !type.hasStaticShape()) return std::nullopt;
  // Parts start from a neutral element: the initial value must count once only.
  const std::optional<mlir::TypedAttr> neutral = arith::getNeutralElement(sum.combiner);
  if (!neutral) return std::nullopt;
  sum.neutral = *neutral;
  sum.results = type.getNumElements();
  const llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  for (auto [loop, extent] : llvm::enumerate(extents)) {
    const auto position = static_cast<unsigned>(loop);
    // The longest summed loop is split.
    if (op.getIteratorTypesArray()[loop] != IteratorType::reduction || extent <= sum.steps) continue;
    // The loop must be a dimension of each operand, never part of a window.
    const bool alone = llvm::all_of(op.getDpsInputOperands(), [&](mlir::OpOperand* input) {
      return llvm::all_of(op.getMatchingIndexingMap(input).getResults(), [&](AffineExpr expression) {
        return mlir::isa<mlir::AffineDimExpr>(expression) || !expression.isFunctionOfDim(position);
      });
    });
    if (!alone) continue;
    sum.loop = position;
    sum.steps = extent;
  }
  return sum.steps > 1 && sum.results > 0 ? std::optional(sum) : std::nullopt;
}

/// Whether its largest operand is contiguous along the sum, so that each lane sums a part.
bool sumsAlongVectors(GenericOp op) {
  mlir::OpOperand* widest = *llvm::max_element(op.getDpsInputOperands(), [](mlir::OpOperand* a, mlir::OpOperand* b) {
    return tensorBytes(a->get().getType()) < tensorBytes(b->get().getType());
  });
  const AffineMap read = op.getMatchingIndexingMap(widest);
  if (read.getNumResults() == 0) return true;
  auto innermost = mlir::dyn_cast<mlir::AffineDimExpr>(read.getResults().back());
  return innermost && op.getIteratorTypesArray()[innermost.getPosition()] == IteratorType::reduction;
}

/// Most successive additions in single precision. The error is up to half an ulp per addition, and comes close to that
/// if all terms are similar (the pixels of a channel before a normalization).
constexpr int64_t kMaxAdditions = 16384, kAdditions = 1024;

/// Returns the number of parts that keeps successive additions below the limit; 1: the sum is short enough.
int64_t partsOfLongSum(const Sum& sum, const Chip& chip) {
  // Products are summed in several accumulators anyway.
  GenericOp op = sum.op;
  if (!mlir::isa<arith::AddFOp>(sum.combiner) || sum.product || !sum.neutral.getType().isF32()) return 1;
  int64_t additions = 1;
  for (auto [extent, kind] : llvm::zip_equal(op.getStaticLoopRanges(), op.getIteratorTypesArray()))
    if (kind == IteratorType::reduction) additions *= extent;
  // Each lane sums its own part.
  if (sumsAlongVectors(op)) additions /= chip.lanes();
  if (additions <= kMaxAdditions) return 1;
  const int64_t least = std::min(ceilDiv(additions, kAdditions), sum.steps);
  // A number of parts without a rest is preferred.
  for (int64_t parts = least; parts <= std::min(2 * least, sum.steps); ++parts)
    if (sum.steps % parts == 0) return parts;
  return least;
}

/// Adjacent vectors of a product's results that share a loaded operand.
constexpr int64_t kOfProduct = 2;

/// Prices of a sum as a whole and in parts, in microseconds of the slowest core.
class SplitPrices {
 public:
  SplitPrices(const Sum& sum, const Chip& chip) : sum_(sum), chip_(chip), op_(sum.op) {
    double bytes = 0;
    for (Value input : op_.getDpsInputs()) bytes += static_cast<double>(tensorBytes(input.getType()));
    const double arithmetic = static_cast<double>(flopsOf(mlir::cast<mlir::linalg::LinalgOp>(op_.getOperation()))) /
                              chip.operationsPerSecond();
    const Chip::Level& level = chip.levelHolding(bytes);
    work_us_ = 1e6 * std::max(arithmetic, bytes / chip.bytesPerSecond(level));
    // Additions to one vector depend on each other, so few vectors do not use the full bandwidth.
    const double alone = static_cast<double>(4 * chip.lanes()) / chip.multiplyAddLatency();
    pieces_ = piecesOf(std::clamp<int64_t>(static_cast<int64_t>(std::ceil(level.bytes_per_cycle / alone)), 1,
                                           std::max<int64_t>(1, chip.costParameters().tiles().sums())));
  }

  /// Pieces of the results that cores can share without leaving lanes idle.
  int64_t pieces() const { return pieces_; }
  double whole() const { return work_us_ * busiest(pieces()); }
  double inParts(int64_t parts) const { return work_us_ * busiest(pieces() * parts) + costOf(parts); }
  /// The cost of phases and partial results.
  double costOf(int64_t parts) const {
    const double bytes = static_cast<double>(parts * tensorBytes(op_.getResult(0).getType()));
    const double passes = chip_.costParameters().memory().transfers_per_written_line() + 1;
    const double rate = chip_.bytesPerSecond(chip_.levelHolding(bytes)) * 1e-6;
    const double phases = sum_.steps % parts == 0 ? 1 : 2;
    return phases * 1e6 * chip_.seconds(chip_.costParameters().overheads().phase_cycles()) +
           passes * bytes / rate * busiest(ceilDiv(sum_.results, chip_.lanes()));
  }
  /// Returns the number of parts with the least time; 1: not split.
  int64_t best() const {
    // Shorter parts would not fill vectors.
    const int64_t shortest = 4 * chip_.lanes();
    int64_t best = 1;
    double least = whole();
    for (int64_t parts = 2; parts <= 4 * chip_.cores() && parts * shortest <= sum_.steps; ++parts) {
      if (inParts(parts) >= least) continue;
      best = parts;
      least = inParts(parts);
    }
    return best;
  }
  /// The idle cores' time must be worth more than twice the cost of the parts.
  bool pays(int64_t parts) const {
    return parts > 1 && work_us_ * (busiest(pieces()) - busiest(pieces() * parts)) > 2 * costOf(parts);
  }

 private:
  /// For a sum along its vectors one piece per result, otherwise as many vectors as keep a core busy.
  int64_t piecesOf(int64_t vectors) const {
    if (sumsAlongVectors(op_) && !sum_.product) return sum_.results;
    return ceilDiv(ceilDiv(sum_.results, chip_.lanes()), sum_.product ? kOfProduct : vectors);
  }
  /// Returns the busiest core's share of equal pieces.
  double busiest(int64_t pieces) const { return loadImbalance(pieces, chip_.cores()) / chip_.cores(); }

  const Sum& sum_;
  const Chip& chip_;
  mutable GenericOp op_;  // a handle
  double work_us_ = 0;    ///< on one core
  int64_t pieces_ = 1;
};

class Writer {
 public:
  explicit Writer(const Sum& sum) : sum_(sum), op_(sum.op), b_(op_), at_(op_.getLoc()) {}

  void run(int64_t parts) {
    const int64_t each = sum_.steps / parts;
    Value partial = partialResults(parts, each);
    // The initial value is combined at the end.
    Value init = op_.getDpsInits()[0];
    if (each * parts < sum_.steps) init = rest(each * parts, init);
    op_.getResult(0).replaceAllUsesWith(joined(partial, init));
    op_.erase();
  }

 private:
  /// Returns `count` steps of an operand from `first` on, or the whole operand if the loop does not index it.
  Value stepsOf(mlir::OpOperand* input, int64_t first, int64_t count) {
    Value value = input->get();
    auto type = mlir::cast<RankedTensorType>(value.getType());
    llvm::SmallVector<int64_t> offsets(type.getRank(), 0), sizes(type.getShape()), ones(type.getRank(), 1);
    for (auto [dimension, expression] : llvm::enumerate(op_.getMatchingIndexingMap(input).getResults())) {
      if (expression != b_.getAffineDimExpr(sum_.loop)) continue;
      offsets[dimension] = first;
      sizes[dimension] = count;
    }
    if (type.getShape() == llvm::ArrayRef<int64_t>(sizes)) return value;
    auto index = [&](llvm::ArrayRef<int64_t> numbers) {
      return mlir::getAsIndexOpFoldResult(b_.getContext(), numbers);
    };
    return mlir::tensor::ExtractSliceOp::create(b_, at_, value, index(offsets), index(sizes), index(ones));
  }

  Value filled(llvm::ArrayRef<int64_t> shape) {
    Value neutral = arith::ConstantOp::create(b_, at_, sum_.neutral);
    Value empty = mlir::tensor::EmptyOp::create(b_, at_, shape, neutral.getType());
    return mlir::linalg::FillOp::create(b_, at_, neutral, empty).getResult(0);
  }

  GenericOp copied(mlir::ValueRange inputs, Value init, llvm::ArrayRef<AffineMap> maps,
                   llvm::ArrayRef<IteratorType> loops) {
    return GenericOp::create(b_, at_, init.getType(), inputs, init, maps, loops,
                             [&](OpBuilder& inner, mlir::Location, mlir::ValueRange values) {
                               mlir::IRMapping mapping;
                               for (auto [argument, value] : llvm::zip_equal(op_.getBody()->getArguments(), values))
                                 mapping.map(argument, value);
                               for (Operation& each : *op_.getBody()) inner.clone(each, mapping);
                             });
  }

  /// p[s, i] = sum over q of f(x[i, s Q + q]): the loop of parts is outermost.
  Value partialResults(int64_t parts, int64_t each) {
    llvm::SmallVector<Value> inputs;
    llvm::SmallVector<AffineMap> maps;
    const unsigned loops = op_.getNumLoops();
    for (mlir::OpOperand* input : op_.getDpsInputOperands()) {
      Value value = stepsOf(input, 0, parts * each);
      auto type = mlir::cast<RankedTensorType>(value.getType());
      llvm::SmallVector<mlir::ReassociationIndices> whole;
      llvm::SmallVector<int64_t> shape;
      llvm::SmallVector<AffineExpr> read;
      for (auto [extent, expression] :
           llvm::zip_equal(type.getShape(), op_.getMatchingIndexingMap(input).getResults())) {
        mlir::ReassociationIndices& dimensions = whole.emplace_back();
        if (expression == b_.getAffineDimExpr(sum_.loop)) {
          dimensions.push_back(static_cast<int64_t>(shape.size()));
          shape.push_back(parts);
          read.push_back(b_.getAffineDimExpr(0));
        }
        dimensions.push_back(static_cast<int64_t>(shape.size()));
        shape.push_back(expression == b_.getAffineDimExpr(sum_.loop) ? each : extent);
        read.push_back(expression.shiftDims(loops, 1));
      }
      if (shape.size() != static_cast<size_t>(type.getRank())) {
        value = mlir::tensor::ExpandShapeOp::create(b_, at_, RankedTensorType::get(shape, type.getElementType()), value,
                                                    whole);
      }
      inputs.push_back(value);
      maps.push_back(AffineMap::get(loops + 1, 0, read, b_.getContext()));
    }
    llvm::SmallVector<int64_t> shape = {parts};
    llvm::append_range(shape, mlir::cast<RankedTensorType>(op_.getResult(0).getType()).getShape());
    llvm::SmallVector<AffineExpr> written = {b_.getAffineDimExpr(0)};
    for (AffineExpr expression : op_.getIndexingMapsArray().back().getResults())
      written.push_back(expression.shiftDims(loops, 1));
    maps.push_back(AffineMap::get(loops + 1, 0, written, b_.getContext()));
    llvm::SmallVector<IteratorType> kinds = {IteratorType::parallel};
    llvm::append_range(kinds, op_.getIteratorTypesArray());
    return copied(inputs, filled(shape), maps, kinds).getResult(0);
  }

  /// Adds the steps from `first` on to `init`.
  Value rest(int64_t first, Value init) {
    llvm::SmallVector<Value> inputs;
    for (mlir::OpOperand* input : op_.getDpsInputOperands())
      inputs.push_back(stepsOf(input, first, sum_.steps - first));
    return copied(inputs, init, op_.getIndexingMapsArray(), op_.getIteratorTypesArray()).getResult(0);
  }

  /// y[i] = init[i] + sum over s of p[s, i].
  Value joined(Value partial, Value init) {
    const auto rank = static_cast<unsigned>(mlir::cast<RankedTensorType>(init.getType()).getRank());
    llvm::SmallVector<AffineExpr> read = {b_.getAffineDimExpr(rank)}, written;
    for (unsigned loop = 0; loop < rank; ++loop) written.push_back(b_.getAffineDimExpr(loop));
    llvm::append_range(read, written);
    llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
    loops.push_back(IteratorType::reduction);
    const AffineMap maps[] = {AffineMap::get(rank + 1, 0, read, b_.getContext()),
                              AffineMap::get(rank + 1, 0, written, b_.getContext())};
    auto join = [&](OpBuilder& inner, mlir::Location, mlir::ValueRange values) {
      mlir::IRMapping mapping;
      mlir::BlockArgument out = op_.getBody()->getArguments().back();
      for (Value operand : sum_.combiner->getOperands()) mapping.map(operand, operand == out ? values[1] : values[0]);
      mlir::linalg::YieldOp::create(inner, at_, inner.clone(*sum_.combiner, mapping)->getResults());
    };
    return GenericOp::create(b_, at_, init.getType(), partial, init, maps, loops, join).getResult(0);
  }

  const Sum& sum_;
  GenericOp op_;
  OpBuilder b_;
  mlir::Location at_;
};

}  // namespace

int splitLongSums(mlir::func::FuncOp main, const Chip& chip) {
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    const std::optional<Sum> sum = sumOf(op);
    if (!sum) continue;
    const int64_t parts = partsOfLongSum(*sum, chip);
    if (parts < 2) continue;
    Writer(*sum).run(parts);
    ++count;
  }
  return count;
}

std::vector<v1::Decision> splitSums(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices) {
  std::vector<v1::Decision> decisions;
  // With one core no core is idle.
  if (chip.cores() < 2) return decisions;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    const std::optional<Sum> sum = sumOf(op);
    if (!sum) continue;
    const SplitPrices prices(*sum, chip);
    // The results alone occupy all cores.
    if (prices.pieces() >= chip.cores()) continue;
    const int64_t best = prices.best();
    const std::string place = choices.nextPlace(kSplitChoice, nodeNames(op.getLoc()));
    const std::string pinned = choices.pinned(kSplitChoice, place);
    int64_t parts = prices.pays(best) ? best : 1;
    if (pinned == kWhole) {
      parts = 1;
    } else if (int64_t number = 0; absl::SimpleAtoi(pinned, &number) && number > 1 && number <= sum->steps) {
      parts = number;
    } else if (!pinned.empty()) {
      choices.refuse(kSplitChoice, place, "no such number of parts",
                     absl::StrCat(kWhole, ", or 2 to ", sum->steps, " parts"));
    }
    v1::Choice& made = choices.record(kSplitChoice, place, parts > 1 ? absl::StrCat(parts) : kWhole);
    // Nothing to report: no split pays and none is pinned.
    if (best == 1 && parts == 1) continue;
    made.set_subject(operationsText(op.getOperation()));
    v1::Decision& decision = decisions.emplace_back();
    decision.set_kind(kSplitChoice);
    decision.set_place(place);
    decision.set_unit("us");
    decision.set_taken(parts > 1);
    // Reports the split that was taken, or else the best one.
    const int64_t told = parts > 1 ? parts : best;
    const double whole = prices.whole(), split = prices.inParts(told);
    decision.set_cost(parts > 1 ? split : whole);
    decision.set_alternative_cost(parts > 1 ? whole : split);
    made.set_cost_us(decision.cost());
    made.set_error(chip.costParameters().gains().slices_share());
    addAlternative(made, parts > 1 ? kWhole : absl::StrCat(told), decision.alternative_cost());
    decision.set_reason(
        absl::StrFormat("%d results of sums of %d steps are %d pieces for %d cores: whole %.1f us, in %d parts %.1f "
                        "us, %.1f of them for "
                        "phases and partial results%s",
                        sum->results, sum->steps, prices.pieces(), chip.cores(), whole, told, split,
                        prices.costOf(told), pinned.empty() ? "" : "; pinned"));
    if (parts > 1) Writer(*sum).run(parts);
  }
  return decisions;
}

}  // namespace tessera::compiler
