#include "compiler/graph/winograd/winograd.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/layout/channel_layout.h"
#include "compiler/graph/layout/layout_cost.h"
#include "compiler/graph/winograd/winograd_cost_model.h"
#include "compiler/graph/winograd/winograd_selection.h"
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

/// An eligible convolution. If all channels are in one block, neither access functions nor loops have blocks.
struct Candidate {
  GenericOp op;
  ConvolutionShape shape;
  int64_t input_block = 0, output_block = 0;
  bool input_blocks = false, output_blocks = false;  ///< whether there is a loop over blocks
  int64_t min_images = 0;                            ///< least images of a run
};

/// Returns the type if it has static extents and elements of f32, f16 or bf16.
std::optional<RankedTensorType> plainType(Value value) {
  auto type = mlir::dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape()) return std::nullopt;
  const mlir::Type element = type.getElementType();
  return element.isF32() || element.isF16() || element.isBF16() ? std::optional(type) : std::nullopt;
}

/// [N, C/c, H, W, c], or [N, H, W, c].
constexpr int kBlocksRank = 5, kOneBlockRank = 4;

/// Matches the access functions that assignLayouts gives a 3x3 convolution with stride 1 and one dilation, with loops
/// in any order.
std::optional<Candidate> candidateOf(GenericOp op) {
  if (op.getNumDpsInputs() != 2 || !isProduct(op)) return std::nullopt;
  auto input = plainType(op.getDpsInputs()[0]), filter = plainType(op.getDpsInputs()[1]);
  auto output = plainType(op.getResult(0));
  if (!input || !filter || !output || !output->getElementType().isF32() || !isKnownAtCompileTime(op.getDpsInputs()[1]))
    return std::nullopt;
  for (const auto& type : {input, output})
    if (type->getRank() != kBlocksRank && type->getRank() != kOneBlockRank) return std::nullopt;
  const bool in = input->getRank() == kBlocksRank, out = output->getRank() == kBlocksRank;
  if (op.getNumLoops() != 7U + (in ? 1 : 0) + (out ? 1 : 0) || filter->getRank() != 4 + (in ? 1 : 0) + (out ? 1 : 0))
    return std::nullopt;
  auto fill = op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>();
  if (!fill || !mlir::matchPattern(fill.getInputs()[0], mlir::m_AnyZeroFloat())) return std::nullopt;
  const llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  if (!maps[1].isProjectedPermutation() || !maps[2].isProjectedPermutation()) return std::nullopt;
  // [K/k, C/c, 3, 3, c, k] and [N, K/k, H, W, k] identify the loops; the input must agree.
  const unsigned taps = filter->getRank() - 4, rows = rowsOf(*output);
  auto r = maps[1].getResult(taps), s = maps[1].getResult(taps + 1), inner_c = maps[1].getResult(taps + 2),
       inner_k = maps[1].getResult(taps + 3);
  auto n = maps[2].getResult(0), y = maps[2].getResult(rows), x = maps[2].getResult(rows + 1);
  // The input has two dilations more rows and columns than the result.
  const int64_t height = input->getDimSize(rowsOf(*input)), width = input->getDimSize(rowsOf(*input) + 1);
  const int64_t dilation = (height - output->getDimSize(rows)) / 2;
  llvm::SmallVector<AffineExpr> result = {n, y, x, inner_k}, read = {n, y + r * dilation, x + s * dilation, inner_c};
  if (out) result.insert(result.begin() + 1, maps[1].getResult(0));
  if (in) read.insert(read.begin() + 1, maps[1].getResult(taps - 1));
  if (llvm::ArrayRef<AffineExpr>(result) != maps[2].getResults()) return std::nullopt;
  for (auto [expected, found] : llvm::zip_equal(read, maps[0].getResults())) {
    if (mlir::simplifyAffineExpr(expected - found, maps[0].getNumDims(), 0) !=
        mlir::getAffineConstantExpr(0, op.getContext())) {
      return std::nullopt;
    }
  }
  if (filter->getDimSize(taps) != 3 || filter->getDimSize(taps + 1) != 3) return std::nullopt;
  const int64_t input_block = filter->getDimSize(taps + 2), output_block = filter->getDimSize(taps + 3);
  Candidate candidate{op, {}, input_block, output_block, in, out};
  candidate.shape = {output->getDimSize(0),
                     input_block * (in ? filter->getDimSize(taps - 1) : 1),
                     output_block * (out ? filter->getDimSize(0) : 1),
                     output->getDimSize(rows),
                     output->getDimSize(rows + 1),
                     dilation};
  if (dilation < 1 || height != candidate.shape.height + (2 * dilation) ||
      width != candidate.shape.width + (2 * dilation)) {
    return std::nullopt;
  }
  return candidate;
}

/// Loops of the stages: positions in Winograd's domain, blocks of channels, images, the plain convolutions of a dilated
/// one, blocks of the image, channels within a block, rows and columns within a block, taps.
enum class Over { kP, kQ, kK, kC, kImage, kRowApart, kColumnApart, kDown, kAcross, kInnerK, kInnerC, kI, kJ, kR, kS };

/// Builds the stages of one convolution.
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
  /// `saved_us`: the predicted gain.
  void run(double saved_us);

 private:
  /// Returns the loops of `wanted` that this convolution has.
  llvm::SmallVector<Over> loops(std::initializer_list<Over> wanted) const;
  int64_t extentOf(Over loop) const;
  /// Returns an access function of a stage with these loops.
  llvm::SmallVector<AffineExpr> access(llvm::ArrayRef<Over> of, std::initializer_list<Over> wanted);
  llvm::SmallVector<int64_t> extents(std::initializer_list<Over> wanted) const;
  AffineExpr dim(llvm::ArrayRef<Over> of, Over loop) { return b_.getAffineDimExpr(llvm::find(of, loop) - of.begin()); }
  /// Returns the row (or column) of the image that is number `within` of a block.
  AffineExpr place(llvm::ArrayRef<Over> of, Over block, Over within, Over apart);
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
  int64_t slice_rows_;  ///< in blocks; 0: no slices
  int64_t number_;
  OpBuilder b_;
  int64_t down_, across_;  ///< blocks
};

Value Writer::zeros(llvm::ArrayRef<int64_t> shape) {
  Value zero = arith::ConstantOp::create(b_, op_.getLoc(), b_.getF32FloatAttr(0));
  Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), shape, b_.getF32Type());
  return mlir::linalg::FillOp::create(b_, op_.getLoc(), zero, empty).getResult(0);
}

llvm::SmallVector<Over> Writer::loops(std::initializer_list<Over> wanted) const {
  llvm::SmallVector<Over> there;
  for (const Over loop : wanted) {
    // Loops over blocks exist only with several blocks; those over plain convolutions only with a dilation.
    const bool absent = (loop == Over::kK && !c_.output_blocks) || (loop == Over::kC && !c_.input_blocks) ||
                        ((loop == Over::kRowApart || loop == Over::kColumnApart) && c_.shape.dilation == 1);
    if (!absent) there.push_back(loop);
  }
  return there;
}

int64_t Writer::extentOf(Over loop) const {
  switch (loop) {
    case Over::kP:
    case Over::kQ:
      return algorithm_.side();
    case Over::kK:
      return c_.shape.outputs / c_.output_block;
    case Over::kC:
      return c_.shape.inputs / c_.input_block;
    case Over::kImage:
      return c_.shape.batch;
    case Over::kRowApart:
    case Over::kColumnApart:
      return c_.shape.dilation;
    case Over::kDown:
      return down_;
    case Over::kAcross:
      return across_;
    case Over::kInnerK:
      return c_.output_block;
    case Over::kInnerC:
      return c_.input_block;
    default:
      return 0;  // of its operands
  }
}

llvm::SmallVector<AffineExpr> Writer::access(llvm::ArrayRef<Over> of, std::initializer_list<Over> wanted) {
  return llvm::map_to_vector(loops(wanted), [&](Over loop) { return dim(of, loop); });
}

llvm::SmallVector<int64_t> Writer::extents(std::initializer_list<Over> wanted) const {
  return llvm::map_to_vector(loops(wanted), [&](Over loop) { return extentOf(loop); });
}

AffineExpr Writer::place(llvm::ArrayRef<Over> of, Over block, Over within, Over apart) {
  const int64_t m = algorithm_.results, d = c_.shape.dilation;
  const AffineExpr first = dim(of, block) * (m * d) + dim(of, within) * d;
  return d == 1 ? first : first + dim(of, apart);
}

/// out += product of the inputs; the first `parallel` loops are parallel, the others are summed over.
GenericOp Writer::generic(llvm::ArrayRef<Value> inputs, llvm::ArrayRef<int64_t> shape,
                          llvm::ArrayRef<llvm::SmallVector<AffineExpr>> maps, unsigned parallel, unsigned reductions) {
  Value init = zeros(shape);
  // The access functions are over the parallel loops, then the summed ones.
  llvm::SmallVector<AffineMap> access;
  for (const auto& map : maps) access.push_back(AffineMap::get(parallel + reductions, 0, map, b_.getContext()));
  llvm::SmallVector<IteratorType> loops(parallel, IteratorType::parallel);
  loops.append(reductions, IteratorType::reduction);
  return GenericOp::create(b_, op_.getLoc(), mlir::TypeRange{init.getType()}, mlir::ValueRange(inputs),
                           mlir::ValueRange{init}, access, loops,
                           [](OpBuilder& inner, Location at, mlir::ValueRange operands) {
                             // 16-bit operands are widened as they are loaded.
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

/// Pads the input to whole blocks: zeros after the last row and column if m does not divide the result.
Value Writer::paddedInput() {
  const Value input = op_.getDpsInputs()[0];
  auto type = mlir::cast<RankedTensorType>(input.getType());
  const int rows = rowsOf(type);
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[rows] = c_.shape.dilation * (down_ * algorithm_.results + 2);
  shape[rows + 1] = c_.shape.dilation * (across_ * algorithm_.results + 2);
  if (type.getShape() == llvm::ArrayRef<int64_t>(shape)) return input;
  // Extends an existing padding instead of padding its result; with one block of channels, looks through the view that
  // drops its dimension.
  auto view = input.getDefiningOp<mlir::tensor::CollapseShapeOp>();
  if (view && (view.getSrcType().getRank() != kBlocksRank || rowsOf(view.getSrcType()) != rows + 1 ||
               view.getSrcType().getDimSize(1) != 1 || view.getSrcType().getDimSize(0) != type.getDimSize(0)))
    view = nullptr;
  Value source = view ? view.getSrc() : input;
  auto read = mlir::cast<RankedTensorType>(source.getType());
  llvm::SmallVector<int64_t> padded(read.getShape()), low(read.getRank(), 0), high(read.getRank(), 0);
  for (const int d : {0, 1}) {
    high[rowsOf(read) + d] = shape[rows + d] - padded[rowsOf(read) + d];
    padded[rowsOf(read) + d] = shape[rows + d];
  }
  // A zero padding before is extended, so that there is one padding.
  auto pad = source.getDefiningOp<mlir::tensor::PadOp>();
  Value with = pad ? pad.getConstantPaddingValue() : Value();
  if (with && pad.getLow().empty() && pad.getHigh().empty() && mlir::matchPattern(with, mlir::m_AnyZeroFloat())) {
    source = pad.getSource();
    for (int d = 0; d < read.getRank(); ++d) {
      low[d] += pad.getStaticLow()[d];
      high[d] += pad.getStaticHigh()[d];
    }
  }
  Value zero = arith::ConstantOp::create(b_, op_.getLoc(), b_.getFloatAttr(type.getElementType(), 0.0));
  Value whole = mlir::tensor::PadOp::create(b_, op_.getLoc(), RankedTensorType::get(padded, type.getElementType()),
                                            source, mlir::getAsIndexOpFoldResult(b_.getContext(), low),
                                            mlir::getAsIndexOpFoldResult(b_.getContext(), high), zero);
  return reshapeView(b_, op_.getLoc(), whole, shape);
}

void Writer::run(double saved_us) {
  using enum Over;
  const int64_t t = algorithm_.side(), m = algorithm_.results, d = c_.shape.dilation;
  Value to_input = matrix(algorithm_.input, t), to_filter = matrix(algorithm_.filter, t);
  Value to_output = matrix(algorithm_.output, m);
  // One stage: the loops in `kept` are parallel, the remaining ones of `all` are summed.
  auto stage = [&](llvm::ArrayRef<Value> inputs, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Over> kept,
                   llvm::ArrayRef<Over> all, llvm::ArrayRef<llvm::SmallVector<AffineExpr>> maps) {
    return generic(inputs, shape, maps, kept.size(), all.size() - kept.size());
  };
  auto with = [](llvm::SmallVector<Over> kept, llvm::ArrayRef<Over> summed) {
    kept.append(summed.begin(), summed.end());
    return kept;
  };
  // U = G g G^T: summed over the taps r, s of the filter.
  const std::initializer_list<Over> filters_at = {kP, kQ, kK, kC, kInnerC, kInnerK};
  const auto filter_loops = loops(filters_at), filter_all = with(filter_loops, {kR, kS});
  GenericOp filters =
      stage({to_filter, to_filter, op_.getDpsInputs()[1]}, extents(filters_at), filter_loops, filter_all,
            {access(filter_all, {kP, kR}), access(filter_all, {kQ, kS}),
             access(filter_all, {kK, kC, kR, kS, kInnerC, kInnerK}), access(filter_all, filters_at)});

  // V = B^T x B for each block of the padded input: summed over the rows i and columns j of the block.
  const std::initializer_list<Over> input_at = {kP, kQ, kC, kImage, kRowApart, kColumnApart, kDown, kAcross, kInnerC};
  const auto input_loops = loops(input_at), input_all = with(input_loops, {kI, kJ});
  auto read = access(input_all, {kImage, kC});
  read.append(
      {place(input_all, kDown, kI, kRowApart), place(input_all, kAcross, kJ, kColumnApart), dim(input_all, kInnerC)});
  GenericOp input =
      stage({to_input, to_input, paddedInput()}, extents(input_at), input_loops, input_all,
            {access(input_all, {kP, kI}), access(input_all, {kQ, kJ}), read, access(input_all, input_at)});

  // M = sum over the channels of V U, for each position p, q: the batched product.
  const std::initializer_list<Over> product_at = {kP, kQ, kK, kImage, kRowApart, kColumnApart, kDown, kAcross, kInnerK};
  const auto product_loops = loops(product_at), product_all = with(product_loops, loops({kC, kInnerC}));
  GenericOp product =
      stage({input.getResult(0), filters.getResult(0)}, extents(product_at), product_loops, product_all,
            {access(product_all, input_at), access(product_all, filters_at), access(product_all, product_at)});

  // y = A^T M A: summed over the positions p, q.
  const auto output_loops = loops({kImage, kK, kDown, kI, kAcross, kJ, kInnerK, kRowApart, kColumnApart}),
             output_all = with(output_loops, {kP, kQ});
  auto written = access(output_all, {kImage, kK});
  written.append({place(output_all, kDown, kI, kRowApart), place(output_all, kAcross, kJ, kColumnApart),
                  dim(output_all, kInnerK)});
  auto whole = extents({kImage, kK});
  whole.append({down_ * m * d, across_ * m * d, c_.output_block});
  GenericOp output =
      stage({to_output, to_output, product.getResult(0)}, whole, output_loops, output_all,
            {access(output_all, {kI, kP}), access(output_all, {kJ, kQ}), access(output_all, product_at), written});
  // Attributes let grouping and slicing recognize the stages. The filters are folded, so they are not marked.
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
  // Whole blocks exceed the result where m does not divide its extents.
  if (result.getType() != type) {
    const llvm::SmallVector<int64_t> zeros(type.getRank(), 0), ones(type.getRank(), 1);
    result = mlir::tensor::ExtractSliceOp::create(b_, op_.getLoc(), result,
                                                  mlir::getAsIndexOpFoldResult(b_.getContext(), zeros),
                                                  mlir::getAsIndexOpFoldResult(b_.getContext(), type.getShape()),
                                                  mlir::getAsIndexOpFoldResult(b_.getContext(), ones));
  }
  op_.getResult(0).replaceAllUsesWith(result);
  // Removes the padding that paddedInput() replaced.
  mlir::Operation* read_before = op_.getDpsInputs()[0].getDefiningOp();
  op_.erase();
  while (read_before && read_before->use_empty() &&
         mlir::isa<mlir::tensor::PadOp, mlir::tensor::CollapseShapeOp>(read_before)) {
    mlir::Operation* before = read_before->getOperand(0).getDefiningOp();
    read_before->erase();
    read_before = before;
  }
}

/// The forms of one convolution: times in microseconds at the largest number of images, and the worst ratio of each
/// form's time to the best one's over all numbers of images.
struct Comparison {
  double direct = 0, direct_worst = 1;
  std::vector<WinogradCost> prices;  ///< by algorithm
  std::vector<double> worst;
};

Comparison compare(const Candidate& candidate, const WinogradCostModel& prices, double faster) {
  Comparison all;
  all.worst.assign(winogradAlgorithms().size(), 0);
  all.direct_worst = 0;
  ConvolutionShape shape = candidate.shape;
  // Tries all powers of two: the best form may change with the number of images.
  for (int64_t images = candidate.min_images;; images *= 2) {
    shape.batch = std::min(images, candidate.shape.batch);
    all.direct = prices.direct(shape) / faster;
    all.prices.clear();
    // Each form is compared with the best one at this number.
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

/// Returns a bound of the microseconds that slices shared with neighbours could save for a direct convolution: keeping
/// its input and output near. In Winograd's domain it has its own slices.
double slicesMayGain(const Candidate& candidate, const Chip& chip) {
  const ConvolutionShape& shape = candidate.shape;
  double gain_us = 0;
  // Input and output can each stay near once.
  for (const int64_t channels : {shape.inputs, shape.outputs}) {
    const auto elements = static_cast<double>(shape.batch * channels * shape.height * shape.width);
    gain_us += fusion::roundTripSeconds(chip, elements * sizeof(float)) * 1e6;
  }
  return gain_us;
}

/// An eligible convolution, and the decision about it.
struct Way {
  Candidate candidate;
  Comparison all;
  size_t best = 0;      ///< algorithm
  std::string name;     ///< of the node
  std::string place;    ///< its name in pins
  std::string subject;  ///< its operations
  bool is_contested = false;
  bool taken = false;             ///< in Winograd's domain
  WinogradOutcome selected = {};  ///< outcome of the selection, if contested
  const WinogradAlgorithm& algorithm() const { return winogradAlgorithms()[best]; }
  const WinogradCost& price() const { return all.prices[best]; }
};

v1::Decision decisionFor(const Way& way, double optimality_gap_us) {
  const ConvolutionShape& shape = way.candidate.shape;
  const WinogradAlgorithm& algorithm = way.algorithm();
  const WinogradCost& price = way.price();
  const double direct = way.all.direct;
  v1::Decision decision;
  decision.set_kind("algorithm");
  decision.set_place(way.name);
  decision.set_taken(way.taken);
  decision.set_unit("us");
  decision.set_cost(way.taken ? price.total() : direct);
  decision.set_alternative_cost(way.taken ? direct : price.total());
  std::string reason = absl::StrFormat(
      "3x3 %d->%d %dx%d %s: directly %.0f us, as %s %.0f us (products %.0f with %.2f of the multiplications, "
      "transforms %.0f)",
      shape.inputs, shape.outputs, shape.height, shape.width, way.taken ? algorithm.name : "direct", direct,
      algorithm.name, price.total(), price.product,
      static_cast<double>(algorithm.positions() * shape.blocks(algorithm.results)) /
          static_cast<double>(9 * shape.height * shape.width),
      price.transforms);
  if (!way.selected.slices.empty())
    absl::StrAppendFormat(&reason, "; directly it is part of %s, whose slices gain %.0f us", way.selected.slices,
                          way.selected.gain_us);
  if (way.is_contested && way.taken)
    absl::StrAppend(&reason, "; slices that it could share with its neighbours gain less together");
  if (way.is_contested && optimality_gap_us > 0)
    absl::StrAppendFormat(&reason, "; another choice gains at most %.0f us more", optimality_gap_us);
  if (way.candidate.min_images < shape.batch)
    absl::StrAppendFormat(&reason,
                          "; of runs of %d to %d images at most %.2f times the best way's time, directly %.2f times",
                          way.candidate.min_images, shape.batch, way.all.worst[way.best], way.all.direct_worst);
  decision.set_reason(std::move(reason));
  return decision;
}

constexpr char kAlgorithmChoice[] = "algorithm";

void addPrices(v1::Choice& made, const Comparison& all, double error) {
  made.set_error(error);
  const auto add = [&](const std::string& name, double cost_us) {
    if (name == made.choice()) {
      made.set_cost_us(cost_us);
    } else {
      addAlternative(made, name, cost_us);
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

/// Returns the convolutions of `main`, in order, with the decisions that pins and prices alone determine.
std::vector<Way> waysOf(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices, const UsedRowAnalysis* rows) {
  const WinogradCostModel prices(chip, static_cast<double>(weightsBytes(main)));
  const llvm::ArrayRef<WinogradAlgorithm> algorithms = winogradAlgorithms();
  // Direct convolutions of bf16 use an instruction that adds groups, if there is one.
  const double most = 1 - chip.costParameters().gains().winograd_share();
  const auto tiles = LayoutCost(chip).tilesOf(16);
  const double faster =
      std::max(tiles ? tiles->speed : 1.0, static_cast<double>(dotProductGroup(chip.dotProducts(), 16)));
  std::vector<Way> ways;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    std::optional<Candidate> candidate = candidateOf(op);
    if (!candidate) continue;
    candidate->min_images = rows ? rows->minIndices(op.getResult(0), 0) : candidate->shape.batch;
    Way& way = ways.emplace_back();
    way.candidate = *candidate;
    way.all = compare(*candidate, prices, isBf16Product(op) ? faster : 1);
    way.name = firstNodeName(op.getLoc());
    way.place = choices.nextPlace(kAlgorithmChoice, way.name);
    way.subject = operationsText(op.getOperation());
    const std::string pinned = choices.pinned(kAlgorithmChoice, way.place);
    const auto* wanted = llvm::find_if(algorithms, [&](const auto& algorithm) { return pinned == algorithm.name; });
    const std::vector<double>& worst = way.all.worst;
    // The algorithm whose worst case is the best, unless one is pinned.
    way.best = wanted != algorithms.end() ? wanted - algorithms.begin()
                                          : std::min_element(worst.begin(), worst.end()) - worst.begin();
    if (!pinned.empty() && wanted == algorithms.end() && pinned != kDirect)
      choices.refuse(kAlgorithmChoice, way.place, "no such algorithm", acceptedAlgorithms());
    const bool pays = pinned.empty() && worst[way.best] < most * way.all.direct_worst;
    // If no slices with neighbours can gain as much, the convolution needs no selection.
    way.is_contested = pays && way.all.direct - slicesMayGain(*candidate, chip) < way.price().total();
    way.taken = wanted != algorithms.end() || (pays && !way.is_contested);
  }
  return ways;
}

}  // namespace

WinogradReport applyWinograd(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices,
                             fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* rows) {
  WinogradReport report;
  const double error = chip.costParameters().gains().winograd_share();
  std::vector<Way> ways = waysOf(main, chip, choices, rows);
  const auto rewrite = [&](Way& way) {
    Writer(way.candidate, way.algorithm(), way.price().slice_rows, report.rewritten++)
        .run(way.all.direct - way.price().total());
  };
  std::vector<Way*> open;
  std::vector<WinogradCandidate> winograd_candidates;
  for (Way& way : ways) {
    if (way.taken) rewrite(way);
    if (!way.is_contested) continue;
    open.push_back(&way);
    winograd_candidates.push_back({way.candidate.op, way.all.direct * (1 - error) - way.price().total()});
  }
  const WinogradSelection selection =
      selectWinogradForms(main, winograd_candidates, chip, choices, fusion_policy, rows);
  for (auto [way, selected] : llvm::zip_equal(open, selection.each)) {
    way->selected = selected;
    way->taken = selected.rewritten;
    if (way->taken) rewrite(*way);
  }
  for (const Way& way : ways) {
    report.decisions.push_back(decisionFor(way, selection.optimality_gap_us));
    v1::Choice& made = choices.record(kAlgorithmChoice, way.place, way.taken ? way.algorithm().name : kDirect);
    made.set_subject(way.subject);
    addPrices(made, way.all, error);
  }
  return report;
}

}  // namespace tessera::compiler
