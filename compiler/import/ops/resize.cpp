// Resize and its predecessor Upsample. If sizes and scales are known at import, the coordinates and weights of the mode
// are computed here, in double precision, and the module reads them as constants. For a dimension that is a range, or
// becomes as long as one, the module computes them by the same formulas.
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/limits.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/dynamic_resize.h"
#include "compiler/import/ops/resize_taps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// Coordinates and weights take import memory for every element along a dimension.
constexpr int64_t kLongestDimension = 1 << 22;
/// Most source elements of a result that are unrolled; more are summed by a loop.
constexpr size_t kWrittenTaps = 8;

/// Repeats each element of dimension d `factors[d]` times, by broadcasting into additional dimensions.
Tensor repeat(Emitter& e, const Tensor& x, const std::vector<int64_t>& factors) {
  Shape split, wide, merged;
  for (int64_t d = 0; d < x.rank(); ++d) {
    split.push_back(x.shape[d]);
    wide.push_back(x.shape[d]);
    // A dimension that is not repeated needs no additional one.
    if (factors[d] > 1) {
      split.push_back(1);
      wide.push_back(factors[d]);
    }
    merged.push_back(x.shape[d] * factors[d]);
  }
  return e.reshape(e.broadcast(e.reshape(x, split), wide), merged);
}

/// Resizes dimension `axis`: the sum over the taps of weight[o, tap] * x[.., index[o, tap], ..], in `type`.
Tensor applyTaps(Emitter& e, const Tensor& x, int64_t axis, const Taps& taps, v1::DataType type) {
  Shape shape = x.shape;
  shape[axis] = taps.outputs();
  const auto rank = static_cast<unsigned>(x.rank());
  const AffineMap along = AffineMap::get(
      rank, 0, {mlir::getAffineDimExpr(static_cast<unsigned>(axis), e.b.getContext())}, e.b.getContext());
  llvm::SmallVector<Access> operands;
  // Weights are left out if each result is one element.
  const bool weighted = taps.width() > 1 || taps.outside;
  for (size_t t = 0; t < taps.width(); ++t) {
    operands.push_back({Emitter::wrap(integerConstant(taps.index[t])), along});
    if (weighted) operands.push_back({Emitter::wrap(realConstant(type, {taps.outputs()}, taps.weight[t])), along});
  }
  // Elements outside the input contribute a constant to each result.
  if (taps.outside) operands.push_back({Emitter::wrap(realConstant(type, {taps.outputs()}, *taps.outside)), along});
  Value source = e.value(x);
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  return e.generic(type, shape, operands, e.b.getMultiDimIdentityMap(rank), loops, nullptr,
                   [&](const Scalars& any, ValueRange v) -> Value {
                     // Reads in the stored type, sums in the computed one.
                     const Scalars s = any.as(type), stored = any.as(x.dtype);
                     llvm::SmallVector<Value> from;
                     for (unsigned d = 0; d < rank; ++d) {
                       from.push_back(mlir::linalg::IndexOp::create(s.b, s.loc, d));
                     }
                     Value sum = taps.outside ? v.back() : Value();
                     for (size_t t = 0; t < taps.width(); ++t) {
                       from[axis] = clampedCoordinate(s, v[weighted ? 2 * t : t], x.shape[axis]);
                       Value element = stored.cast(e.extract(stored, source, from), type);
                       if (weighted) element = s.mul(element, v[2 * t + 1]);
                       sum = sum ? s.add(sum, element) : element;
                     }
                     return sum;
                   });
}

/// Resizes by a product with the matrix of all weights: for results of many source elements, a loop sums them.
Tensor applyMatrix(Emitter& e, const Tensor& x, int64_t axis, const Taps& taps) {
  const int64_t outputs = taps.outputs(), inputs = x.shape[axis];
  // A matrix with few nonzero entries per row; reading all of it is still faster than a loop over taps.
  std::vector<double> weights(outputs * inputs, 0.0);
  for (size_t t = 0; t < taps.width(); ++t) {
    for (int64_t o = 0; o < outputs; ++o) weights[o * inputs + taps.index[t][o]] += taps.weight[t][o];
  }
  const auto rank = static_cast<unsigned>(x.rank());
  mlir::MLIRContext* context = e.b.getContext();
  llvm::SmallVector<mlir::AffineExpr> in, out;
  for (unsigned d = 0; d < rank; ++d) out.push_back(mlir::getAffineDimExpr(d, context));
  in = out;
  in[axis] = mlir::getAffineDimExpr(rank, context);
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  loops.push_back(IteratorType::reduction);
  Shape shape = x.shape;
  shape[axis] = outputs;
  const Tensor zero = e.zeros(x.dtype, shape);
  const Tensor matrix = Emitter::wrap(realConstant(x.dtype, {outputs, inputs}, weights));
  return e.generic(x.dtype, shape,
                   {{x, AffineMap::get(rank + 1, 0, in, context)},
                    {matrix, AffineMap::get(rank + 1, 0, {out[axis], in[axis]}, context)}},
                   AffineMap::get(rank + 1, 0, out, context), loops, &zero,
                   [](const Scalars& s, ValueRange v) { return s.fma(v[0], v[1], v[2]); });
}

/// Returns the axes of scales, sizes and regions: all, or those named since version 18.
absl::StatusOr<std::vector<int64_t>> resizedAxes(Node& n) {
  std::vector<int64_t> axes(n.in(0).rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (n.opset() < 18 || !n.hasAttribute("axes")) return axes;
  TESSERA_ASSIGN_OR_RETURN(axes, n.integers("axes"));
  return n.normalizeAxes(axes, n.in(0).rank(), "axes");
}

/// Applies the aspect ratio policy: one factor for all axes, that of the largest or smallest requested size. `axes` are
/// the axes of the sizes.
void keepAspectRatio(Node& n, ResizePlan& plan, const std::vector<int64_t>& axes, bool not_larger) {
  double factor = not_larger ? INFINITY : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const double wish = static_cast<double>(plan.sizes[i]) / static_cast<double>(n.in(0).shape[axes[i]]);
    factor = not_larger ? std::min(factor, wish) : std::max(factor, wish);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const double exact = factor * static_cast<double>(n.in(0).shape[axes[i]]);
    plan.sizes[i] = static_cast<int64_t>(std::floor(std::min(exact, 1e9) + 0.5));
  }
  plan.kept_scale = factor;
}

/// Since version 18, scales and sizes may be for some axes only; the others keep their size.
absl::Status spreadOverAxes(Node& n, ResizePlan& plan) {
  if (n.opset() < 18) return absl::OkStatus();
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto axes, resizedAxes(n));
  TESSERA_ASSIGN_OR_RETURN(const std::string policy, n.text("keep_aspect_ratio_policy", "stretch"));
  const bool kept = policy == "not_larger" || policy == "not_smaller";
  if (!kept && policy != "stretch") {
    return n.invalid(
        "unknown policy",
        {.attribute = "keep_aspect_ratio_policy", .found = policy, .accepted = "stretch, not_larger, not_smaller"});
  }
  // An empty input has no aspect ratio.
  if (kept && plan.sizes.size() == axes.size() && x.elements() > 0)
    keepAspectRatio(n, plan, axes, policy == "not_larger");
  if (!n.hasAttribute("axes")) return absl::OkStatus();
  const bool by_size = !plan.sizes.empty();
  const size_t given = by_size ? plan.sizes.size() : plan.scales.size();
  if (given != axes.size()) {
    return n.invalid("needs one scale or one size per axis", {.attribute = "axes",
                                                              .found = absl::StrCat(given, " values"),
                                                              .accepted = absl::StrCat(axes.size(), " values")});
  }
  // Axes that are not named keep their size.
  ResizePlan whole{by_size ? x.shape : Shape{}, by_size ? std::vector<double>{} : std::vector<double>(x.rank(), 1)};
  for (size_t i = 0; i < axes.size(); ++i) {
    if (by_size) {
      whole.sizes[axes[i]] = plan.sizes[i];
    } else {
      whole.scales[axes[i]] = plan.scales[i];
    }
  }
  whole.kept_scale = plan.kept_scale;
  plan = std::move(whole);
  return absl::OkStatus();
}

/// Returns the output size and scale of every dimension, from `scales` or `sizes`, whichever is given.
absl::StatusOr<ResizePlan> readPlan(Node& n, int scales_input, int sizes_input) {
  const Tensor& x = n.in(0);
  ResizePlan plan;
  auto count = [&](int input) { return n.has(input) ? n.in(input).elements() : 0; };
  if (n.opset() < 9) {  // Upsample had it as an attribute
    TESSERA_ASSIGN_OR_RETURN(plan.scales, n.reals("scales"));
  } else if (sizes_input > 0 && count(sizes_input) > 0) {
    // Sizes take precedence over scales.
    TESSERA_ASSIGN_OR_RETURN(const SizeList sizes, n.sizes(sizes_input, "sizes"));
    plan.sizes = sizes.most;
  } else if (count(scales_input) > 0) {
    TESSERA_ASSIGN_OR_RETURN(const ConstantPtr scales, n.constantInput(scales_input, "scales"));
    // Longer lists are refused below by their length.
    if (scales->elements() <= limits::kRank) plan.scales = scales->reals();
  }
  const bool by_size = !plan.sizes.empty();
  TESSERA_RETURN_IF_ERROR(spreadOverAxes(n, plan));
  if (static_cast<int64_t>(by_size ? plan.sizes.size() : plan.scales.size()) != x.rank()) {
    return n.invalid("needs one scale or one size per dimension",
                     {.attribute = by_size ? "sizes" : "scales",
                      .found = absl::StrCat(by_size ? plan.sizes.size() : plan.scales.size(), " values"),
                      .accepted = absl::StrCat(x.rank(), " values")});
  }
  TESSERA_ASSIGN_OR_RETURN(const auto axes, resizedAxes(n));
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool resized = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (by_size && plan.kept_scale > 0 && resized) {
      plan.scales.push_back(plan.kept_scale);
    } else if (by_size) {
      // The exact ratio of both sizes; with a kept aspect ratio the common factor.
      plan.scales.push_back(static_cast<double>(plan.sizes[d]) / static_cast<double>(std::max<int64_t>(x.shape[d], 1)));
    } else if (!(plan.scales[d] > 0) || plan.scales[d] > INT32_MAX) {
      return n.invalid(absl::StrCat("the scale of dimension ", d, " is ", plan.scales[d]),
                       {.attribute = "scales", .found = absl::StrCat(plan.scales[d]), .accepted = "above 0"});
    } else {
      // In single precision, as the scales are given: 10 * 0.7 is 7 in single precision, and less in double precision.
      plan.sizes.push_back(
          static_cast<int64_t>(std::floor(static_cast<float>(x.shape[d]) * static_cast<float>(plan.scales[d]))));
    }
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(plan.sizes, x.dtype));
  for (int64_t size : plan.sizes) {
    if (size <= kLongestDimension) continue;
    return n.invalid("a resized dimension is too long",
                     {.attribute = "sizes",
                      .found = absl::StrCat(size),
                      .accepted = absl::StrCat("dimensions of up to ", kLongestDimension)});
  }
  if (elementCount(x.shape) == 0 && elementCount(plan.sizes) != 0) {
    return n.invalid("the input is empty", {.attribute = "X", .found = shapeText(x.shape)});
  }
  return plan;
}

/// Dimensions whose lengths are known at run time.
struct LiveDimensions {
  std::map<int64_t, Value> extents;            ///< of the result
  std::map<int64_t, DynamicDimension> looked;  ///< those that are neither unchanged nor repeated
};

/// Returns floor(length * scale), in integers if these give the same, so that the analysis of extents can follow it.
Tensor scaledLength(Emitter& e, const Tensor& length, double scale) {
  constexpr double kMaxFactor = 1 << 10;  // products of lengths below 2^14 are exact in single precision; longer
                                          // lengths do not occur
  if (scale >= 1 && scale <= kMaxFactor && scale == std::floor(scale))
    // Whole factors and powers of two are exact in integers.
    return multiplied(e, length, static_cast<int64_t>(scale));
  int exponent = 0;
  if (scale < 1 && scale >= 1 / kMaxFactor && std::frexp(scale, &exponent) == 0.5)
    return dividedExtent(e, length, int64_t{1} << (1 - exponent));
  return e.elementwise(v1::DATA_TYPE_I64, {length}, [&](const Scalars& s, ValueRange v) {
    const Scalars f = s.as(v1::DATA_TYPE_F32);  // the type of the scales
    return f.cast(f.math<mlir::math::FloorOp>(f.mul(s.cast(v[0], f.type), f.constant(scale))), s.type);
  });
}

/// `factors` are the repetitions at the bounds.
absl::StatusOr<LiveDimensions> liveDimensions(Node& n, Emitter& e, const ResizePlan& plan, const ResizeMode& mode,
                                              const std::vector<int64_t>& factors) {
  constexpr int kSizes = 3;  // of Resize; its predecessors have none
  const bool by_size = n.has(kSizes) && n.in(kSizes).elements() > 0;
  SizeList sizes;
  std::vector<int64_t> axes;
  if (by_size) {
    TESSERA_ASSIGN_OR_RETURN(sizes, n.sizes(kSizes, "sizes"));
    TESSERA_ASSIGN_OR_RETURN(axes, resizedAxes(n));
  }
  LiveDimensions live;
  for (int64_t dim = 0; dim < n.in(0).rank(); ++dim) {
    const bool open = n.in(0).extents.contains(dim);
    const auto place = std::find(axes.begin(), axes.end(), dim);
    const int64_t a = place - axes.begin();
    const bool sized = place != axes.end(), follows = sized && sizes.follows[a];
    if (!open && !follows) continue;
    // A common scale depends on all sizes, and this one is open.
    if (sized && plan.kept_scale > 0)
      return refuseExtent(n, 0, dim, "the common scale of all dimensions would depend on it");
    const Tensor input = extentOf(n.in(0), dim);
    // Repeated elements stay in order, so only the extent changes.
    if (open && factors[dim] > 0) {  // unchanged or repeated
      const Tensor repeated = multiplied(e, input, factors[dim]);
      // Sizes that are given must be exactly the repeated ones.
      if (!sized || (follows && n.sameExtent(repeated.value, n.sizeAt(e, kSizes, a).value))) {
        live.extents[dim] = repeated.value;
        continue;
      }
    }
    if (!supportsDynamicResize(mode)) {
      return n.unsupported(
          absl::StrCat("the length of dimension ", dim, ", before or after the resize, is known only at run time"),
          {.attribute = mode.antialias ? "antialias" : "mode",
           .found = "a length known at run time",
           .accepted = "nearest or linear, without antialias, by pixels, halves of pixels or corners",
           .remedy = "instead of a range (--dim N=1..8), give sizes (--dim N=1,2,4,8)"});
    }
    DynamicDimension looked{.input = input, .output = {}};
    if (sized) {
      looked.output = follows ? n.sizeAt(e, kSizes, a) : scalarI64(plan.sizes[dim]);
    } else {
      looked.scale = plan.scales[dim];
      looked.output = scaledLength(e, input, looked.scale);
    }
    // A constant length has no extent.
    if (looked.output.value && !looked.output.constant) live.extents[dim] = looked.output.value;
    live.looked[dim] = std::move(looked);
  }
  return live;
}

absl::Status refuseInterpolatedBools(const Node& n, const ResizeMode& mode) {
  if (mode.interpolation == Interpolation::kNearest || n.in(0).dtype != v1::DATA_TYPE_BOOL) return absl::OkStatus();
  return n.invalid("interpolation between truth values", {.attribute = "mode", .found = "bool", .accepted = "nearest"});
}

// Integers are interpolated in f64. The result is truncated (ONNX's reference, ONNX Runtime) and saturated. With
// antialiasing, ONNX Runtime and Pillow, whose filter it is, round after each dimension, the last one first.

/// f64 may hold slightly less than an exact integer: adds an amount smaller than the distance of any fraction to the
/// next integer.
Tensor toIntegers(Emitter& e, const Tensor& x, v1::DataType to) {
  return e.elementwise(to, {x},
                       [to](const Scalars& s, ValueRange v) { return s.cast(s.mul(v[0], s.constant(1 + 1e-11)), to); });
}

/// Rounds halves up.
Tensor toNearest(Emitter& e, const Tensor& x, v1::DataType to) {
  return e.elementwise(to, {x}, [to](const Scalars& s, ValueRange v) {
    return s.cast(s.math<mlir::math::FloorOp>(s.add(v[0], s.constant(0.5))), to);
  });
}

/// Returns dimensions that shrink first; or the last dimension first.
std::vector<int64_t> orderOfDimensions(const Shape& from, const Shape& to, bool last_first) {
  std::vector<int64_t> order(from.size());
  std::iota(order.begin(), order.end(), 0);
  if (last_first) {
    std::reverse(order.begin(), order.end());
  } else {
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const bool shrinks = to[a] < from[a], other = to[b] < from[b];
      return shrinks != other ? shrinks : a < b;
    });
  }
  return order;
}

Results resize(Node& n, Emitter& e, const ResizePlan& plan, const ResizeMode& mode) {
  Tensor x = n.in(0);
  if (elementCount(plan.sizes) == 0) return {{Emitter::wrap(makeConstant(x.dtype, plan.sizes, ""))}};
  const bool integers = mode.interpolation != Interpolation::kNearest && !isFloat(x.dtype);
  TESSERA_RETURN_IF_ERROR(refuseInterpolatedBools(n, mode));
  std::vector<Taps> taps;
  std::vector<int64_t> factors;
  bool repeats = true;
  for (int64_t d = 0; d < x.rank(); ++d) {
    taps.push_back(resizeTaps(mode, x.shape[d], plan.sizes[d], plan.scales[d], static_cast<size_t>(d)));
    factors.push_back(taps.back().repetition(x.shape[d]));
    repeats &= factors.back() > 0;
  }
  TESSERA_ASSIGN_OR_RETURN(LiveDimensions live, liveDimensions(n, e, plan, mode, factors));
  // Pure repetition reads no coordinates.
  if (repeats && live.looked.empty()) {
    Tensor result = repeat(e, x, factors);
    result.extents = std::move(live.extents);
    return {{std::move(result)}};
  }
  const v1::DataType type = integers ? v1::DATA_TYPE_F64 : x.dtype;
  // Separable: resizes one dimension after the other.
  for (const int64_t d : orderOfDimensions(n.in(0).shape, plan.sizes, integers && mode.antialias)) {
    if (factors[d] == 1 || live.looked.contains(d)) continue;
    // Many taps are a product with a matrix, if that is not too large.
    const bool many = taps[d].width() > kWrittenTaps && x.shape[d] * plan.sizes[d] <= kLongestDimension;
    x = many ? applyMatrix(e, e.cast(x, type), d, taps[d]) : applyTaps(e, x, d, taps[d], type);
    // Pillow rounds after each dimension.
    if (integers && mode.antialias) x = toNearest(e, x, n.in(0).dtype);
  }
  for (const auto& [d, looked] : live.looked) x = resizeDynamic(e, e.cast(x, type), d, plan.sizes[d], mode, looked);
  if (x.dtype != n.in(0).dtype) x = toIntegers(e, x, n.in(0).dtype);
  x.extents = std::move(live.extents);
  return {{std::move(x)}};
}

absl::StatusOr<Interpolation> readInterpolation(Node& n, bool cubic) {
  TESSERA_ASSIGN_OR_RETURN(const std::string mode, n.text("mode", "nearest"));
  if (mode == "nearest") return Interpolation::kNearest;
  if (mode == "linear" || mode == "bilinear") return Interpolation::kLinear;
  if (mode == "cubic" && cubic) return Interpolation::kCubic;
  return n.invalid(
      "unknown mode",
      {.attribute = "mode", .found = mode, .accepted = cubic ? "nearest, linear, cubic" : "nearest, linear"});
}

/// Version 10 and Upsample: asymmetric coordinates, the nearest element below.
Results lowerUpsample(Node& n, Emitter& e) {
  ResizeMode mode{.coordinates = Coordinates::kAsymmetric, .rounding = Rounding::kFloor};
  TESSERA_ASSIGN_OR_RETURN(mode.interpolation, readInterpolation(n, false));
  TESSERA_ASSIGN_OR_RETURN(const ResizePlan plan, readPlan(n, 1, 0));
  return resize(n, e, plan, mode);
}

/// Returns the enumerator named by an attribute; an error if it is none of the names.
template <typename Enum, size_t kCount>
absl::StatusOr<Enum> choose(Node& n, const std::string& attribute, const char* fallback,
                            const char* const (&names)[kCount]) {
  TESSERA_ASSIGN_OR_RETURN(const std::string found, n.text(attribute, fallback));
  std::string accepted;
  for (size_t i = 0; i < kCount; ++i) {
    if (found == names[i]) return static_cast<Enum>(i);
    absl::StrAppend(&accepted, i ? ", " : "", names[i]);
  }
  return n.invalid(absl::StrCat("unknown ", attribute), {.attribute = attribute, .found = found, .accepted = accepted});
}

/// Reads the region of interest: starts, then ends, per dimension, in [0, 1] of the input.
absl::Status readRegion(Node& n, ResizeMode& mode) {
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr roi, n.constantInput(1, "roi"));
  TESSERA_ASSIGN_OR_RETURN(const auto axes, resizedAxes(n));
  const auto count = static_cast<int64_t>(axes.size()), rank = n.in(0).rank();
  if (roi->elements() != 2 * count) {
    return n.invalid(
        "the region does not fit the input",
        {.attribute = "roi", .found = shapeText(roi->shape), .accepted = absl::StrCat(2 * count, " values")});
  }
  // Axes that are not named keep all of their elements.
  mode.region.assign(2 * rank, 0);
  std::fill(mode.region.begin() + rank, mode.region.end(), 1);
  for (int64_t i = 0; i < count; ++i) {
    mode.region[axes[i]] = roi->realAt(i);
    mode.region[rank + axes[i]] = roi->realAt(count + i);
  }
  return absl::OkStatus();
}

/// Like a static region, for one that the data decide, as for each box of TensorFlow's CropAndResize.
Results cropAndResize(Node& n, Emitter& e, const ResizeMode& mode) {
  TESSERA_RETURN_IF_ERROR(refuseExtents(n, "a region of it is resized"));
  TESSERA_ASSIGN_OR_RETURN(const auto axes, resizedAxes(n));
  TESSERA_ASSIGN_OR_RETURN(const ResizePlan plan, readPlan(n, 2, 3));
  const auto count = static_cast<int64_t>(axes.size());
  if (n.in(1).shape != Shape{2 * count} || !isFloat(n.in(1).dtype)) {
    return n.invalid(
        "the region does not fit the input",
        {.attribute = "roi", .found = shapeText(n.in(1).shape), .accepted = absl::StrCat(2 * count, " numbers")});
  }
  Tensor x = n.in(0);
  TESSERA_RETURN_IF_ERROR(refuseInterpolatedBools(n, mode));
  if (mode.interpolation == Interpolation::kCubic)
    return n.unsupported("a region that is known only at run time",
                         {.attribute = "mode", .found = "cubic", .accepted = "nearest or linear"});
  if (elementCount(plan.sizes) == 0) return {{Emitter::wrap(makeConstant(x.dtype, plan.sizes, ""))}};
  const bool integers = mode.interpolation != Interpolation::kNearest && !isFloat(x.dtype);
  if (integers) x = e.cast(x, v1::DATA_TYPE_F64);
  for (int64_t i = 0; i < count; ++i) {
    // A single element resized to one element is unchanged.
    if (x.shape[axes[i]] == 1 && plan.sizes[axes[i]] == 1) continue;
    x = cropAndResizeDynamic(e, x, axes[i], plan.sizes[axes[i]], mode, n.in(1), i, count + i);
  }
  if (integers) x = toIntegers(e, x, n.in(0).dtype);
  return {{std::move(x)}};
}

Results lowerResize(Node& n, Emitter& e) {
  ResizeMode mode;
  TESSERA_ASSIGN_OR_RETURN(mode.interpolation, readInterpolation(n, true));
  TESSERA_ASSIGN_OR_RETURN(mode.coordinates,
                           (choose<Coordinates>(n, "coordinate_transformation_mode", "half_pixel", kCoordinatesNames)));
  TESSERA_ASSIGN_OR_RETURN(mode.rounding, (choose<Rounding>(n, "nearest_mode", "round_prefer_floor", kRoundingNames)));
  TESSERA_ASSIGN_OR_RETURN(mode.cubic_a, n.real("cubic_coeff_a", -0.75));
  TESSERA_ASSIGN_OR_RETURN(mode.exclude_outside, n.flag("exclude_outside", false));
  TESSERA_ASSIGN_OR_RETURN(mode.extrapolation, n.real("extrapolation_value", 0));
  if (n.opset() >= 18) {
    TESSERA_ASSIGN_OR_RETURN(mode.antialias, n.flag("antialias", false));
  }
  if (mode.coordinates == Coordinates::kTfCropAndResize) {
    if (!n.has(1))
      return n.invalid("input 'roi' is missing", {.attribute = "roi", .accepted = "two values per dimension"});
    if (!n.in(1).constant) return cropAndResize(n, e, mode);
    TESSERA_RETURN_IF_ERROR(readRegion(n, mode));
  }
  TESSERA_ASSIGN_OR_RETURN(const ResizePlan plan, readPlan(n, 2, 3));
  return resize(n, e, plan, mode);
}

}  // namespace

std::vector<Operator> resizeOperators() {
  return {
      {"Upsample", 7, 1, 2, lowerUpsample, kAll, 1, 9, "", extentsByLowering},
      {"Resize", 10, 2, 2, lowerUpsample, kAll, 1, 10, "", extentsByLowering},
      {"Resize", 11, 1, 4, lowerResize, kAll, 1, INT_MAX, "", extentsByLowering},
  };
}

}  // namespace tessera::compiler
