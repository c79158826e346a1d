#include "compiler/graph/rewrites/prune_zero_taps.h"

#include <algorithm>
#include <optional>

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/window_access.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Least saving: prices of one kind of code differ from measurements by about this fraction relative to each other.
constexpr double kWorthwhile = 0.1;
/// Time in Winograd's domain relative to a direct 3x3 convolution with stride 1. Whole windows may be better kept for
/// it.
constexpr double kInWinogradsDomain = 0.5;
/// Most blocks of output channels; all ways to divide them are tried.
constexpr int64_t kMaxBlocks = 256;
/// Budget of loop points to evaluate weights; most are already known.
constexpr int64_t kPoints = int64_t{1} << 24;

/// The used taps along each dimension of a window; nothing if all weights are zeros.
using Box = std::optional<llvm::SmallVector<Taps>>;

Box joined(const Box& a, const Box& b) {
  if (!a || !b) return a ? a : b;
  Box both = a;
  for (auto [taps, more] : llvm::zip_equal(*both, *b)) {
    taps = {.first = std::min(taps.first, more.first), .last = std::max(taps.last, more.last)};
  }
  return both;
}

/// A convolution with known weights in which every input channel reaches every output channel.
struct Windows {
  GenericOp op;
  unsigned image = 0, filter = 1;  ///< inputs
  unsigned outputs = 0;            ///< loop
  unsigned in_filter = 0;          ///< dimensions of the filter that this loop indexes
  unsigned in_result = 0;
  llvm::SmallVector<WindowAccess> accesses = {};
  llvm::SmallVector<unsigned> taps_in_filter = {};  ///< dimensions of the filter, for each access
};

std::optional<Windows> windowsOf(GenericOp op) {
  const llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  if (!isProduct(op) || op.getNumDpsInputs() != 2 || op->getNumResults() != 1 ||
      llvm::any_of(extents, mlir::ShapedType::isDynamic) ||
      !op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>()) {
    return std::nullopt;
  }
  Windows windows;
  windows.op = op;
  const llvm::SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  // Either input may be the filter; it is the one that is known.
  if (isKnownAtCompileTime(op.getDpsInputs()[0])) std::swap(windows.image, windows.filter);
  // If the filter's sign bit is flipped, a weight of zero is not zero in the product.
  if (!isKnownAtCompileTime(op.getDpsInputs()[windows.filter]) || flipsSignBit(op, windows.filter)) return std::nullopt;
  const AffineMap image = maps[windows.image], filter = maps[windows.filter];
  if (!filter.isProjectedPermutation() || !maps[2].isProjectedPermutation()) return std::nullopt;
  int channels = 0;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    if (op.getIteratorTypesArray()[loop] != mlir::utils::IteratorType::parallel || !filter.isFunctionOfDim(loop))
      // Looks for the loop over output channels: in the filter, but not in the image.
      continue;
    if (image.isFunctionOfDim(loop)) return std::nullopt;  // grouped convolution
    windows.outputs = loop;
    ++channels;
  }
  if (channels != 1) return std::nullopt;
  const auto loop = mlir::getAffineDimExpr(windows.outputs, op.getContext());
  windows.in_filter = *filter.getResultPosition(loop);
  windows.in_result = *maps[2].getResultPosition(loop);
  for (unsigned d = 0; d < image.getNumResults(); ++d) {
    const std::optional<WindowAccess> access = windowAccessOf(op, windows.image, d);
    if (!access) continue;
    // Each window must walk along one dimension of the filter.
    const auto along = operandsIndexedByTap(op, *access);
    if (!along || along->size() != 1 || along->front().first != windows.filter) return std::nullopt;
    windows.accesses.push_back(*access);
    windows.taps_in_filter.push_back(along->front().second);
  }
  // Outputs, taps and input channels.
  const bool whole = filter.getNumResults() == windows.accesses.size() + 2;
  return whole && !windows.accesses.empty() ? std::optional(windows) : std::nullopt;
}

/// Finds the used taps of each block of output channels.
class Weighed {
 public:
  Weighed(const Windows& windows, const DenseValue& weights)
      : windows_(windows), weights_(weights), strides_(rowMajorStrides(weights.shape)) {
    for (unsigned d = 0; d < weights.shape.size(); ++d) {
      if (d != windows.in_filter && !llvm::is_contained(windows.taps_in_filter, d)) input_ = d;
    }
  }

  Box boxOf(int64_t first, int64_t count) const {
    Box box;
    for (int64_t output = first; output < first + count; ++output) {
      llvm::SmallVector<Taps> tap(windows_.accesses.size());
      addTaps(output * strides_[windows_.in_filter], 0, tap, box);
    }
    return box;
  }

 private:
  void addTaps(int64_t at, size_t number, llvm::SmallVector<Taps>& tap, Box& box) const {
    if (number == tap.size()) {
      // Looks at weights only if this tap would make the box larger.
      const Box more = joined(box, tap);
      if (more != box && anyInput(at)) box = more;
      return;
    }
    const unsigned d = windows_.taps_in_filter[number];
    for (int64_t t = 0; t < weights_.shape[d]; ++t) {
      tap[number] = {.first = t, .last = t};
      addTaps(at + (t * strides_[d]), number + 1, tap, box);
    }
  }

  bool anyInput(int64_t at) const {
    for (int64_t c = 0; c < weights_.shape[input_]; ++c) {
      const char* element = weights_.data + ((at + (c * strides_[input_])) * weights_.width);
      // Compares bytes, so a negative zero counts as used, which is safe.
      if (std::any_of(element, element + weights_.width, [](char byte) { return byte != 0; })) return true;
    }
    return false;
  }

  const Windows& windows_;
  const DenseValue& weights_;
  llvm::SmallVector<int64_t> strides_;
  unsigned input_ = 0;
};

/// Output channels [first, first + count) and their taps.
struct OutputPart {
  int64_t first = 0, count = 0;
  Box taps;
};

class Divider {
 public:
  Divider(const Windows& windows, const Chip& chip)
      : windows_(windows), chip_(chip), extents_(GenericOp(windows.op).getStaticLoopRanges()) {
    for (const WindowAccess& access : windows.accesses)
      all_.push_back({.first = 0, .last = extents_[access.tap_loop] - 1});
  }

  /// Returns the parts with the least time; nothing if the convolution as it is takes about as long.
  std::vector<OutputPart> divide(const Weighed& weighed) const;

 private:
  /// Returns the seconds of a part. A part whose weights are all zeros keeps one tap.
  double price(const OutputPart& part) const {
    double points = static_cast<double>(part.count);
    for (unsigned loop = 0; loop < extents_.size(); ++loop) {
      const bool tap =
          llvm::any_of(windows_.accesses, [&](const WindowAccess& access) { return access.tap_loop == loop; });
      if (loop != windows_.outputs && !tap) points *= static_cast<double>(extents_[loop]);
    }
    if (part.taps) {
      for (const Taps& taps : *part.taps) points *= static_cast<double>(taps.count());
      // Such a part would otherwise lose a faster algorithm: its direct price does not count.
      if (inWinogradsDomain(*part.taps)) points *= kInWinogradsDomain;
    }
    return (2 * points / chip_.operationsPerSecond()) +
           chip_.seconds(chip_.costParameters().overheads().phase_cycles());
  }
  bool inWinogradsDomain(llvm::ArrayRef<Taps> taps) const {
    const bool square = taps.size() == 2 && llvm::all_of(taps, [](const Taps& each) { return each.count() == 3; });
    return square && llvm::all_of(windows_.accesses, [](const WindowAccess& access) { return access.stride == 1; }) &&
           mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(GenericOp(windows_.op).getResult(0).getType()));
  }
  /// Returns the seconds to concatenate the parts, which are copied if another dimension is outside the channels.
  double joining() const {
    auto type = mlir::cast<RankedTensorType>(GenericOp(windows_.op).getResult(0).getType());
    const auto before = type.getShape().take_front(windows_.in_result);
    if (llvm::all_of(before, [](int64_t extent) { return extent == 1; })) return 0;
    const double bytes = 2 * static_cast<double>(tensorBytes(type));
    return bytes / chip_.bytesPerSecond(chip_.levelHolding(bytes));
  }

  const Windows& windows_;
  const Chip& chip_;
  llvm::SmallVector<int64_t> extents_;
  llvm::SmallVector<Taps> all_;
};

std::vector<OutputPart> Divider::divide(const Weighed& weighed) const {
  const int64_t outputs = extents_[windows_.outputs], block = std::max(chip_.lanes(), chip_.matrixChannels());
  if (block < 1 || outputs % block != 0 || outputs / block > kMaxBlocks) return {};
  std::vector<Box> boxes;
  bool idle = false;
  for (int64_t first = 0; first < outputs; first += block) {
    boxes.push_back(weighed.boxOf(first, block));
    // Only a block whose taps are fewer can be computed faster.
    idle |= boxes.back() != Box(all_);
  }
  if (!idle) return {};
  // The best division of the blocks before each position, by its last part.
  struct Best {
    double seconds = 0;
    OutputPart last;
  };
  std::vector<Best> best(1);
  for (size_t end = 1; end <= boxes.size(); ++end) {
    std::optional<Best> here;
    OutputPart part{.first = 0, .count = 0, .taps = std::nullopt};
    // Extends the last part backwards, block by block; its taps are the union of the blocks'.
    for (size_t begin = end; begin-- > 0;) {
      part = {.first = static_cast<int64_t>(begin) * block,
              .count = static_cast<int64_t>(end - begin) * block,
              .taps = joined(part.taps, boxes[begin])};
      const double seconds = best[begin].seconds + price(part);
      if (!here || seconds < here->seconds) here = {.seconds = seconds, .last = part};
    }
    best.push_back(*here);
  }
  std::vector<OutputPart> parts;
  // Follows the choices back from the end.
  for (int64_t end = outputs; end > 0; end = parts.back().first) parts.push_back(best[end / block].last);
  std::reverse(parts.begin(), parts.end());
  const double now = price({.first = 0, .count = outputs, .taps = all_});
  const double then = best.back().seconds + (parts.size() > 1 ? joining() : 0);
  return then < (1 - kWorthwhile) * now ? parts : std::vector<OutputPart>();
}

/// Builds the convolution of a part.
Value convolved(mlir::OpBuilder& b, const Windows& windows, const OutputPart& part) {
  GenericOp op = windows.op;
  const llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  llvm::SmallVector<Value> inputs(op.getDpsInputs());
  Value &image = inputs[windows.image], &filter = inputs[windows.filter];
  filter = sliced(b, filter, windows.in_filter, part.first, part.count);
  for (auto [number, access] : llvm::enumerate(windows.accesses)) {
    const Taps taps = part.taps ? (*part.taps)[number] : Taps{};
    // The part reads only the pixels under its taps.
    image = sliced(b, image, access.dimension, access.dilation * taps.first, access.span(extents, taps));
    filter = sliced(b, filter, windows.taps_in_filter[number], taps.first, taps.count());
  }
  llvm::SmallVector<int64_t> shape(mlir::cast<RankedTensorType>(op.getResult(0).getType()).getShape());
  shape[windows.in_result] = part.count;
  // The initial value gets the part's shape; its contents are uniform.
  Value init = refill(b, op.getDpsInits()[0], shape);
  auto made = GenericOp::create(b, op.getLoc(), mlir::TypeRange{init.getType()}, inputs, mlir::ValueRange{init},
                                op.getIndexingMapsArray(), op.getIteratorTypesArray());
  b.cloneRegionBefore(op.getRegion(), made.getRegion(), made.getRegion().begin());
  return made.getResult(0);
}

}  // namespace

int pruneZeroTaps(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights) {
  ConstantEvaluator constants = knownWeights(main, weights);
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    const std::optional<Windows> windows = windowsOf(op);
    if (!windows) continue;
    int64_t budget = kPoints;
    const auto known = constants.evaluate(op.getDpsInputs()[windows->filter], budget);
    if (!known || known->width == 0) continue;
    const std::vector<OutputPart> parts = Divider(*windows, chip).divide(Weighed(*windows, *known));
    if (parts.empty()) continue;
    mlir::OpBuilder b(op);
    llvm::SmallVector<Value> results;
    for (const OutputPart& part : parts) results.push_back(convolved(b, *windows, part));
    Value whole = results.size() == 1
                      ? results[0]
                      : mlir::tensor::ConcatOp::create(b, op.getLoc(), windows->in_result, results).getResult();
    op.getResult(0).replaceAllUsesWith(whole);
    op.erase();
    ++count;
  }
  return count;
}

}  // namespace tessera::compiler
