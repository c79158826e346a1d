#include "compiler/graph/winograd/winograd.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/facts/multiply_accumulate.h"
#include "compiler/graph/facts/stage_attributes.h"
#include "compiler/graph/facts/summary.h"
#include "compiler/graph/layout/layout_prices.h"
#include "compiler/graph/winograd/winograd_prices.h"
#include "compiler/target/dot_product.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

/// A convolution that could be rewritten.
struct Candidate {
  GenericOp op;
  ConvolutionShape shape;
  int64_t input_block, output_block;
  int64_t fewest = 0;  ///< images of a run
};

/// [N, C/c, H, W, c] of f32, or of halves.
std::optional<RankedTensorType> blockedType(Value value, int64_t rank) {
  auto type = mlir::dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() != rank || !type.hasStaticShape()) return std::nullopt;
  const mlir::Type element = type.getElementType();
  return element.isF32() || element.isF16() || element.isBF16() ? std::optional(type) : std::nullopt;
}

/// Recognizes the access functions that assignLayouts gives a 3x3 convolution with stride 1 and one dilation, loops in
/// any order.
std::optional<Candidate> candidateOf(GenericOp op) {
  if (op.getNumLoops() != 9 || op.getNumDpsInputs() != 2 || !isProduct(op)) return std::nullopt;
  auto input = blockedType(op.getDpsInputs()[0], 5), filter = blockedType(op.getDpsInputs()[1], 6);
  auto output = blockedType(op.getResult(0), 5);
  if (!input || !filter || !output || !output->getElementType().isF32() || !isKnownAtCompileTime(op.getDpsInputs()[1]))
    return std::nullopt;
  auto fill = op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>();
  if (!fill || !mlir::matchPattern(fill.getInputs()[0], mlir::m_AnyZeroFloat())) return std::nullopt;
  const llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  if (!maps[1].isProjectedPermutation() || !maps[2].isProjectedPermutation()) return std::nullopt;
  // [K/k, C/c, 3, 3, c, k] and [N, K/k, H, W, k] name the loops; the input must agree.
  auto k = maps[1].getResult(0), c = maps[1].getResult(1), r = maps[1].getResult(2), s = maps[1].getResult(3),
       inner_c = maps[1].getResult(4), inner_k = maps[1].getResult(5);
  auto n = maps[2].getResult(0), y = maps[2].getResult(2), x = maps[2].getResult(3);
  // Two dilations more than results are read.
  const int64_t dilation = (input->getDimSize(2) - output->getDimSize(2)) / 2;
  const llvm::SmallVector<AffineExpr> result = {n, k, y, x, inner_k},
                                      read = {n, c, y + r * dilation, x + s * dilation, inner_c};
  if (llvm::ArrayRef<AffineExpr>(result) != maps[2].getResults()) return std::nullopt;
  for (auto [expected, found] : llvm::zip_equal(read, maps[0].getResults())) {
    if (mlir::simplifyAffineExpr(expected - found, maps[0].getNumDims(), 0) !=
        mlir::getAffineConstantExpr(0, op.getContext())) {
      return std::nullopt;
    }
  }
  if (filter->getDimSize(2) != 3 || filter->getDimSize(3) != 3) return std::nullopt;
  Candidate candidate{op, {}, input->getDimSize(4), output->getDimSize(4)};
  candidate.shape = {output->getDimSize(0),
                     filter->getDimSize(1) * filter->getDimSize(4),
                     filter->getDimSize(0) * filter->getDimSize(5),
                     output->getDimSize(2),
                     output->getDimSize(3),
                     dilation};
  if (dilation < 1 || input->getDimSize(2) != candidate.shape.height + (2 * dilation) ||
      input->getDimSize(3) != candidate.shape.width + (2 * dilation)) {
    return std::nullopt;
  }
  return candidate;
}

/// The blocks of one convolution, and the operations that compute them.
class Writer {
 public:
  Writer(const Candidate& candidate, const WinogradAlgorithm& algorithm, int64_t slice_rows, int64_t number)
      : op_(candidate.op),
        c_(candidate),
        algorithm_(algorithm),
        slice_rows_(slice_rows),
        number_(number),
        b_(candidate.op),
        down_(candidate.shape.blocksDown(algorithm.results)),
        across_(candidate.shape.blocksAcross(algorithm.results)) {}
  /// `saved_us`: what the rewriting is priced to gain.
  void run(double saved_us);

 private:
  AffineExpr dim(unsigned loop) { return b_.getAffineDimExpr(loop); }
  Value matrix(llvm::ArrayRef<float> entries, int64_t rows) {
    auto type = RankedTensorType::get({rows, static_cast<int64_t>(entries.size()) / rows}, b_.getF32Type());
    return arith::ConstantOp::create(b_, op_.getLoc(), mlir::DenseElementsAttr::get(type, entries));
  }
  Value zeros(llvm::ArrayRef<int64_t> shape);
  GenericOp generic(llvm::ArrayRef<Value> inputs, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<llvm::SmallVector<AffineExpr>> maps, unsigned parallel, unsigned reductions);
  Value paddedInput();

  GenericOp op_;
  const Candidate& c_;
  const WinogradAlgorithm& algorithm_;
  int64_t slice_rows_;  ///< of blocks; 0: no slices
  int64_t number_;
  OpBuilder b_;
  int64_t down_, across_;  ///< blocks
};

Value Writer::zeros(llvm::ArrayRef<int64_t> shape) {
  Value zero = arith::ConstantOp::create(b_, op_.getLoc(), b_.getF32FloatAttr(0));
  Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), shape, b_.getF32Type());
  return mlir::linalg::FillOp::create(b_, op_.getLoc(), zero, empty).getResult(0);
}

/// out += product of the inputs; the first `parallel` loops are kept, the others summed over.
GenericOp Writer::generic(llvm::ArrayRef<Value> inputs, llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<llvm::SmallVector<AffineExpr>> maps, unsigned parallel, unsigned reductions) {
  Value init = zeros(shape);
  llvm::SmallVector<AffineMap> access;
  for (const auto& map : maps) access.push_back(AffineMap::get(parallel + reductions, 0, map, b_.getContext()));
  llvm::SmallVector<IteratorType> loops(parallel, IteratorType::parallel);
  loops.append(reductions, IteratorType::reduction);
  return GenericOp::create(b_, op_.getLoc(), mlir::TypeRange{init.getType()}, mlir::ValueRange(inputs),
                           mlir::ValueRange{init}, access, loops,
                           [](OpBuilder& inner, Location at, mlir::ValueRange operands) {
                             // Halves are widened where they are loaded.
                             auto single = [&](Value factor) -> Value {
                               if (factor.getType().isF32()) return factor;
                               return arith::ExtFOp::create(inner, at, inner.getF32Type(), factor);
                             };
                             Value product = single(operands[0]);
                             for (Value factor : operands.drop_front().drop_back()) {
                               factor = single(factor);
                               product = arith::MulFOp::create(inner, at, product, factor);
                             }
                             product = arith::AddFOp::create(inner, at, operands.back(), product);
                             mlir::linalg::YieldOp::create(inner, at, product);
                           });
}

/// The input with whole blocks to read: zeros beyond the last row and column where m does not divide the result.
Value Writer::paddedInput() {
  Value input = op_.getDpsInputs()[0];
  auto type = mlir::cast<RankedTensorType>(input.getType());
  llvm::SmallVector<int64_t> shape(type.getShape()), low(5, 0), high(5, 0);
  const std::array<int64_t, 2> wanted = {c_.shape.dilation * (down_ * algorithm_.results + 2),
                                         c_.shape.dilation * (across_ * algorithm_.results + 2)};
  for (int d : {0, 1}) {
    high[2 + d] = wanted[d] - shape[2 + d];
    shape[2 + d] = wanted[d];
  }
  if (type.getShape() == llvm::ArrayRef<int64_t>(shape)) return input;
  // One padding, not a padding of another.
  auto pad = input.getDefiningOp<mlir::tensor::PadOp>();
  Value with = pad ? pad.getConstantPaddingValue() : Value();
  if (with && pad.getLow().empty() && pad.getHigh().empty() && mlir::matchPattern(with, mlir::m_AnyZeroFloat())) {
    input = pad.getSource();
    for (int d = 0; d < 5; ++d) {
      low[d] += pad.getStaticLow()[d];
      high[d] += pad.getStaticHigh()[d];
    }
  }
  Value zero = arith::ConstantOp::create(b_, op_.getLoc(), b_.getFloatAttr(type.getElementType(), 0.0));
  return mlir::tensor::PadOp::create(b_, op_.getLoc(), RankedTensorType::get(shape, type.getElementType()), input,
                                     mlir::getAsIndexOpFoldResult(b_.getContext(), low),
                                     mlir::getAsIndexOpFoldResult(b_.getContext(), high), zero);
}

void Writer::run(double saved_us) {
  const int64_t t = algorithm_.side(), m = algorithm_.results, batch = c_.shape.batch;
  const int64_t c = c_.input_block, cs = c_.shape.inputs / c, k = c_.output_block, ks = c_.shape.outputs / k;
  Value to_input = matrix(algorithm_.input, t), to_filter = matrix(algorithm_.filter, t);
  Value to_output = matrix(algorithm_.output, m);
  // Filters: p, q, K/k, C/c, c, k; r, s.
  GenericOp filters = generic({to_filter, to_filter, op_.getDpsInputs()[1]}, {t, t, ks, cs, c, k},
                              {{dim(0), dim(6)},
                               {dim(1), dim(7)},
                               {dim(2), dim(3), dim(6), dim(7), dim(4), dim(5)},
                               {dim(0), dim(1), dim(2), dim(3), dim(4), dim(5)}},
                              6, 2);
  // Which of the plain convolutions that a dilated one consists of: one loop for its rows, one for its columns.
  const int64_t d = c_.shape.dilation;
  const llvm::SmallVector<int64_t> apart(d > 1 ? 2 : 0, d);
  const auto e = static_cast<unsigned>(apart.size());
  auto shapeOf = [&](llvm::ArrayRef<int64_t> front, llvm::ArrayRef<int64_t> back) {
    llvm::SmallVector<int64_t> shape(front);
    shape.append(apart);
    shape.append(back.begin(), back.end());
    return shape;
  };
  auto loops = [&](std::initializer_list<unsigned> numbers) {
    llvm::SmallVector<AffineExpr> these;
    for (unsigned number : numbers) these.push_back(dim(number));
    return these;
  };
  auto all = [&](unsigned count) {
    return llvm::map_to_vector(llvm::seq(count), [&](unsigned loop) { return dim(loop); });
  };
  auto withApart = [&](llvm::SmallVector<AffineExpr> front, unsigned first, std::initializer_list<unsigned> back) {
    for (unsigned which = 0; which < e; ++which) front.push_back(dim(first + which));
    front.append(loops(back));
    return front;
  };
  // The row (or column) of an image that is the `within`-th of a block.
  auto place = [&](AffineExpr block, AffineExpr within, unsigned which) {
    return e == 0 ? block * m + within : block * (m * d) + within * d + dim(which);
  };
  // Input: p, q, C/c, N, (rows, columns apart,) Th, Tw, c; i, j.
  GenericOp input =
      generic({to_input, to_input, paddedInput()}, shapeOf({t, t, cs, batch}, {down_, across_, c}),
              {loops({0, 7 + e}),
               loops({1, 8 + e}),
               {dim(3), dim(2), place(dim(4 + e), dim(7 + e), 4), place(dim(5 + e), dim(8 + e), 5), dim(6 + e)},
               all(7 + e)},
              7 + e, 2);
  // Product: p, q, K/k, N, (rows, columns apart,) Th, Tw, k; C/c, c.
  GenericOp product = generic(
      {input.getResult(0), filters.getResult(0)}, shapeOf({t, t, ks, batch}, {down_, across_, k}),
      {withApart(loops({0, 1, 7 + e, 3}), 4, {4 + e, 5 + e, 8 + e}), loops({0, 1, 2, 7 + e, 8 + e, 6 + e}), all(7 + e)},
      7 + e, 2);
  // Output: N, K/k, Th, i, Tw, j, k, (rows, columns apart); p, q.
  GenericOp output =
      generic({to_output, to_output, product.getResult(0)}, {batch, ks, down_ * m * d, across_ * m * d, k},
              {loops({3, 7 + e}),
               loops({5, 8 + e}),
               withApart(loops({7 + e, 8 + e, 1, 0}), 7, {2, 4, 6}),
               {dim(0), dim(1), place(dim(2), dim(3), 7), place(dim(4), dim(5), 8), dim(6)}},
              7 + e, 2);
  for (GenericOp stage : {input, product, output}) {
    stage->setAttr(kStageOf, b_.getI64IntegerAttr(number_));
    if (slice_rows_ == 0) continue;
    stage->setAttr(kSliceRows, b_.getI64IntegerAttr(slice_rows_ * m));
    stage->setAttr(kBlockRows, b_.getI64IntegerAttr(m));
  }
  product->setAttr(kAlgorithm, b_.getStringAttr(algorithm_.name));
  product->setAttr(kSavedUs, b_.getF64FloatAttr(saved_us));
  product->setAttr(kConvolution, b_.getStringAttr(convolutionText(op_)));
  Value result = output.getResult(0);
  auto type = mlir::cast<RankedTensorType>(op_.getResult(0).getType());
  if (result.getType() != type) {
    const llvm::SmallVector<int64_t> zeros(5, 0), ones(5, 1);
    result = mlir::tensor::ExtractSliceOp::create(b_, op_.getLoc(), result,
                                                  mlir::getAsIndexOpFoldResult(b_.getContext(), zeros),
                                                  mlir::getAsIndexOpFoldResult(b_.getContext(), type.getShape()),
                                                  mlir::getAsIndexOpFoldResult(b_.getContext(), ones));
  }
  op_.getResult(0).replaceAllUsesWith(result);
  Value old_input = op_.getDpsInputs()[0];
  op_.erase();
  if (auto* pad = old_input.getDefiningOp(); pad && pad->use_empty()) pad->erase();
}

std::string nameOf(Location location) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(location)) return name.getName().str();
  if (auto fused = mlir::dyn_cast<mlir::FusedLoc>(location)) {
    for (Location part : fused.getLocations()) {
      if (std::string name = nameOf(part); !name.empty()) return name;
    }
  }
  return {};
}

/// The ways to compute one convolution: times in microseconds at the greatest number of images, and how many times the
/// best one's time each takes where it compares worst.
struct Comparison {
  double direct = 0, direct_worst = 1;
  std::vector<WinogradPrice> prices;  ///< of each algorithm
  std::vector<double> worst;
};

Comparison compare(const Candidate& candidate, const WinogradPrices& prices, double faster) {
  Comparison all;
  all.worst.assign(winogradAlgorithms().size(), 0);
  all.direct_worst = 0;
  ConvolutionShape shape = candidate.shape;
  for (int64_t images = candidate.fewest;; images *= 2) {
    shape.batch = std::min(images, candidate.shape.batch);
    all.direct = prices.direct(shape) / faster;
    all.prices.clear();
    double best = all.direct;
    for (const WinogradAlgorithm& algorithm : winogradAlgorithms()) {
      all.prices.push_back(prices.of(shape, algorithm));
      best = std::min(best, all.prices.back().total());
    }
    all.direct_worst = std::max(all.direct_worst, all.direct / best);
    for (auto [worst, price] : llvm::zip_equal(all.worst, all.prices)) worst = std::max(worst, price.total() / best);
    if (shape.batch == candidate.shape.batch) return all;
  }
}

v1::Decision decisionFor(Candidate candidate, const Comparison& all, size_t best, bool taken) {
  const ConvolutionShape& shape = candidate.shape;
  const WinogradAlgorithm& algorithm = winogradAlgorithms()[best];
  const WinogradPrice& price = all.prices[best];
  const double direct = all.direct;
  v1::Decision decision;
  decision.set_kind("algorithm");
  decision.set_place(nameOf(candidate.op.getLoc()));
  decision.set_taken(taken);
  decision.set_unit("us");
  decision.set_cost(taken ? price.total() : direct);
  decision.set_alternative_cost(taken ? direct : price.total());
  decision.set_reason(absl::StrFormat(
      "3x3 %d->%d %dx%d %s: directly %.0f us, as %s %.0f us (products %.0f with %.2f of the multiplications, "
      "transforms %.0f)",
      shape.inputs, shape.outputs, shape.height, shape.width, taken ? algorithm.name : "direct", direct, algorithm.name,
      price.total(), price.product,
      static_cast<double>(algorithm.positions() * shape.blocks(algorithm.results)) /
          static_cast<double>(9 * shape.height * shape.width),
      price.transforms));
  if (candidate.fewest < shape.batch)
    decision.set_reason(
        absl::StrFormat("%s; of runs of %d to %d images at most %.2f times the best way's time, directly %.2f times",
                        decision.reason(), candidate.fewest, shape.batch, all.worst[best], all.direct_worst));
  return decision;
}

constexpr char kAlgorithmChoice[] = "algorithm";

void addPrices(v1::Choice& made, const Comparison& all, double error) {
  made.set_error(error);
  const auto add = [&](const std::string& name, double price_us) {
    if (name == made.choice()) {
      made.set_price_us(price_us);
    } else {
      addAlternative(made, name, price_us);
    }
  };
  add(kDirect, all.direct);
  for (const auto& [algorithm, price] : llvm::zip_equal(winogradAlgorithms(), all.prices))
    add(algorithm.name, price.total());
}

std::string acceptedAlgorithms() {
  std::string text = kDirect;
  for (const WinogradAlgorithm& algorithm : winogradAlgorithms()) text += std::string(", ") + algorithm.name;
  return text;
}

}  // namespace

WinogradReport applyWinograd(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices, const RowFacts* rows) {
  WinogradReport report;
  const WinogradPrices prices(chip);
  // Direct convolutions of bf16 take an instruction that adds up groups, if there is one.
  const double most = 1 - chip.prices().gains().winograd_share();
  const auto tiles = LayoutPrices(chip).tilesOf(16);
  const double faster = std::max(tiles ? tiles->speed : 1.0, static_cast<double>(groupOf(chip.dotProducts(), 16)));
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    std::optional<Candidate> candidate = candidateOf(op);
    if (!candidate) continue;
    candidate->fewest = rows ? rows->fewest(op.getResult(0), 0) : candidate->shape.batch;
    const Comparison all = compare(*candidate, prices, isBrainProduct(op) ? faster : 1);
    const std::string place = choices.place(kAlgorithmChoice, nameOf(op.getLoc()));
    const std::string pinned = choices.pinned(kAlgorithmChoice, place);
    const llvm::ArrayRef<WinogradAlgorithm> algorithms = winogradAlgorithms();
    const auto* wanted = llvm::find_if(algorithms, [&](const auto& algorithm) { return pinned == algorithm.name; });
    const auto best = static_cast<size_t>(
        wanted != algorithms.end() ? wanted - algorithms.begin()
                                   : std::min_element(all.worst.begin(), all.worst.end()) - all.worst.begin());
    if (!pinned.empty() && wanted == algorithms.end() && pinned != kDirect)
      choices.refuse(kAlgorithmChoice, place, "no such algorithm", acceptedAlgorithms());
    const bool taken = wanted != algorithms.end() || (pinned.empty() && all.worst[best] < most * all.direct_worst);
    report.decisions.push_back(decisionFor(*candidate, all, best, taken));
    v1::Choice& made = choices.made(kAlgorithmChoice, place, taken ? algorithms[best].name : kDirect);
    made.set_subject(operationsText(op.getOperation()));
    addPrices(made, all, chip.prices().gains().winograd_share());
    if (!taken) continue;
    Writer(*candidate, algorithms[best], all.prices[best].slice_rows, report.rewritten++)
        .run(all.direct - all.prices[best].total());
  }
  return report;
}

int alignSlices(mlir::func::FuncOp main) {
  int count = 0;
  for (auto pad : llvm::make_early_inc_range(main.getBody().front().getOps<mlir::tensor::PadOp>())) {
    // The stage that computes what is padded, through operations at the same points.
    mlir::Operation* producer = pad.getSource().getDefiningOp();
    for (int steps = 0; producer && !producer->hasAttr(kStageOf) && steps < 4; ++steps) {
      auto follower = mlir::dyn_cast<GenericOp>(producer);
      producer = nullptr;
      if (!follower || follower.getNumReductionLoops() > 0) break;
      for (Value input : follower.getDpsInputs()) {
        if (mlir::Operation* before = input.getDefiningOp(); before && before->hasAttr(kSliceRows)) producer = before;
      }
    }
    auto block = producer ? producer->getAttrOfType<mlir::IntegerAttr>(kBlockRows) : mlir::IntegerAttr();
    Value with = pad.getConstantPaddingValue();
    if (!block || !with || !pad.getLow().empty() || !pad.getHigh().empty() || pad.getType().getRank() != 5) continue;
    const int64_t low = pad.getStaticLow()[2], more = ceilDiv(low, block.getInt()) * block.getInt() - low;
    if (low < 0 || more == 0) continue;
    OpBuilder b(pad);
    llvm::SmallVector<int64_t> shape(pad.getType().getShape()), lows(pad.getStaticLow()), offsets(5, 0), ones(5, 1);
    lows[2] += more;
    shape[2] += more;
    offsets[2] = more;
    auto type = RankedTensorType::get(shape, pad.getType().getElementType());
    Value larger = mlir::tensor::PadOp::create(b, pad.getLoc(), type, pad.getSource(),
                                               mlir::getAsIndexOpFoldResult(b.getContext(), lows),
                                               mlir::getAsIndexOpFoldResult(b.getContext(), pad.getStaticHigh()), with);
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
