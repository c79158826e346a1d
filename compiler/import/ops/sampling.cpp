// Sampling of images (N x C x H x W) at coordinates in a tensor. For any coordinates, infinite and NaN included, reads
// stay inside the image: coordinates become integers by a saturating cast, then are clamped.
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

enum class Padding { kZeros, kBorder, kReflection };
enum class Order { kNearest, kLinear, kCubic };

struct GridMode {
  Padding padding = Padding::kZeros;
  Order order = Order::kLinear;
  bool align_corners = false;
};

absl::StatusOr<GridMode> readGridMode(Node& n) {
  GridMode mode;
  TESSERA_ASSIGN_OR_RETURN(mode.align_corners, n.flag("align_corners", false));
  TESSERA_ASSIGN_OR_RETURN(const std::string order, n.text("mode", "bilinear"));
  if (order == "nearest") {
    mode.order = Order::kNearest;
  } else if (order == "bicubic" || order == "cubic") {
    mode.order = Order::kCubic;
  } else if (order != "bilinear" && order != "linear") {
    return n.invalid("unknown mode", {.attribute = "mode", .found = order, .accepted = "bilinear, nearest, bicubic"});
  }
  TESSERA_ASSIGN_OR_RETURN(const std::string padding, n.text("padding_mode", "zeros"));
  if (padding == "border") {
    mode.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    mode.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    return n.invalid("unknown padding_mode",
                     {.attribute = "padding_mode", .found = padding, .accepted = "zeros, border, reflection"});
  }
  return mode;
}

/// One dimension of a sample: up to four neighbours, each with a coordinate, whether it counts, and its weight.
struct Neighbour {
  Value coordinate, counts, weight;  ///< null `counts` means always, null `weight` means one
};

/// The length of an image along one dimension: `most`, or the run-time size of a range.
struct Length {
  int64_t most = 1;
  Value run;  ///< i64; null: `most`

  /// Returns factor * (length + more).
  Value real(const Scalars& s, double factor, double more) const {
    if (!run) return s.constant(factor * (static_cast<double>(most) + more));
    Value length = s.as(v1::DATA_TYPE_I64).cast(run, s.type);
    return s.mul(s.add(length, s.constant(more)), s.constant(factor));
  }
  Value holds(const Scalars& s, Value place) const {
    if (!run) return isInside(s, place, most);
    const Scalars integers = s.as(v1::DATA_TYPE_I64);
    return s.logicalAnd(integers.compare(Relation::kGreaterOrEqual, place, integers.integer(0)),
                        integers.compare(Relation::kLess, place, run));
  }
  /// Clamps to the buffer as well, for any value of `run`.
  Value clamped(const Scalars& s, Value place) const {
    if (!run) return clampedCoordinate(s, place, most);
    const Scalars integers = s.as(v1::DATA_TYPE_I64);
    return clampedCoordinate(s, integers.min(place, integers.sub(run, integers.integer(1))), most);
  }
};

/// Reflects x at the borders of an image until it is inside.
Value reflected(const Scalars& s, Value x, const Length& length, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, less = align_corners ? -1 : 0;
  if (!length.run && static_cast<double>(length.most) + less == 0) return s.constant(0);
  // A triangle wave of period 2 * span.
  Value period = length.real(s, 2, less);
  Value from = s.abs(s.sub(x, s.constant(low)));
  Value turns = s.math<mlir::math::FloorOp>(s.div(from, period));
  Value rest = s.sub(from, s.mul(turns, period));
  Value inside = s.add(s.min(rest, s.sub(period, rest)), s.constant(low));
  return length.run ? s.select(s.compare(Relation::kEqual, period, s.constant(0)), s.constant(0), inside) : inside;
}

/// Returns the neighbour at the integral position `at`, according to the padding mode.
Neighbour neighbourAt(const Scalars& s, Value at, const Length& length, const GridMode& mode) {
  Neighbour result;
  if (mode.padding == Padding::kReflection) at = reflected(s, at, length, mode.align_corners);
  Value place = s.cast(at, v1::DATA_TYPE_I64);
  if (mode.padding == Padding::kZeros) result.counts = length.holds(s, place);
  result.coordinate = length.clamped(s, place);
  return result;
}

/// Returns Keys' weight with a = -0.75 of a neighbour at distance `x`; `far` if that is between 1 and 2.
Value cubicWeight(const Scalars& s, Value x, bool far) {
  const double a = -0.75;
  auto horner = [&](std::array<double, 4> c) {
    Value sum = s.constant(c[0]);
    for (int i = 1; i < 4; ++i) sum = s.fma(sum, x, s.constant(c[i]));
    return sum;
  };
  return far ? horner({a, -5 * a, 8 * a, -4 * a}) : horner({a + 2, -(a + 3), 0, 1});
}

/// Returns the neighbours of grid coordinate g, where -1 and 1 are the image's ends.
llvm::SmallVector<Neighbour> neighbours(const Scalars& s, Value g, const Length& length, const GridMode& mode) {
  // The ends are the centres of the first and last element, or, without align_corners, their outer edges. Computes in
  // the standard's order, because rounding decides which element is nearest.
  Value from_end = s.add(g, s.constant(1));
  Value x = mode.align_corners ? s.mul(from_end, length.real(s, 0.5, -1))
                               : s.mul(s.sub(s.mul(from_end, length.real(s, 1, 0)), s.constant(1)), s.constant(0.5));
  if (mode.order == Order::kNearest) x = s.math<mlir::math::RoundEvenOp>(x);
  if (mode.padding == Padding::kBorder) {
    // With border padding a window of four is not moved inside, which would change its weights; its outer elements
    // repeat the border. Beyond `margin` the whole window is border, so clamping there keeps infinite coordinates
    // finite.
    const double margin = mode.order == Order::kCubic ? 2 : 0;
    x = s.min(s.max(x, s.constant(-margin)), length.real(s, 1, margin - 1));
  }
  if (mode.padding == Padding::kReflection) x = reflected(s, x, length, mode.align_corners);
  if (mode.order == Order::kNearest) return {neighbourAt(s, x, length, mode)};
  Value below = s.math<mlir::math::FloorOp>(x);
  Value t = s.sub(x, below);
  llvm::SmallVector<Neighbour> result;
  const int first = mode.order == Order::kCubic ? -1 : 0;
  for (int k = first; k <= 1 - first; ++k) {
    result.push_back(neighbourAt(s, s.add(below, s.constant(k)), length, mode));
    Value distance = k <= 0 ? s.sub(t, s.constant(k)) : s.sub(s.constant(k), t);
    result.back().weight =
        mode.order == Order::kCubic ? cubicWeight(s, distance, k < 0 || k > 1) : s.sub(s.constant(1), distance);
  }
  return result;
}

/// Sums over the neighbours in all dimensions; `axes` are from the last dimension (x) to the first. `at` is the element
/// to read: batch, channel, and the coordinates chosen so far.
struct Sample {
  const Scalars& s;
  const Scalars& element;
  Emitter& e;
  Value source;
  v1::DataType real = v1::DATA_TYPE_UNSPECIFIED;

  Value sum(llvm::ArrayRef<llvm::SmallVector<Neighbour>> axes, llvm::SmallVector<Value>& at, Value counts) const {
    if (axes.empty()) {
      Value pixel = element.cast(e.extract(s, source, at), real);
      return counts ? s.select(counts, pixel, s.constant(0)) : pixel;
    }
    Value total;
    for (const Neighbour& neighbour : axes.back()) {
      at.push_back(neighbour.coordinate);
      Value both = !counts ? neighbour.counts : s.logicalAnd(counts, neighbour.counts);
      Value part = sum(axes.drop_back(), at, both);
      at.pop_back();
      if (neighbour.weight) part = s.mul(part, neighbour.weight);
      total = total ? s.add(total, part) : part;
    }
    return total;
  }
};

/// Images of a batch, channels, and positions of a result are independent. An image that is a range is sampled at its
/// run-time size.
absl::Status sampledExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  const Tensor& grid = n.in(1);
  results[0].extents.clear();
  for (const auto& [dim, extent] : n.in(0).extents) {
    const auto of_grid = grid.extents.find(0);
    if (dim == 0 && (of_grid == grid.extents.end() || !n.sameExtent(extent, of_grid->second)))
      return refuseExtent(n, 0, dim, "the grid has another batch");
    if (dim == 1) results[0].extents[1] = extent;
  }
  for (const auto& [dim, extent] : grid.extents) {
    if (dim == grid.rank() - 1 || (dim == 0 && !n.in(0).extents.contains(0)))
      return refuseExtent(n, 1, dim, "it has to fit input 0");
    results[0].extents[dim == 0 ? 0 : dim + 1] = extent;
  }
  return absl::OkStatus();
}

Results lowerGridSample(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 5));
  TESSERA_ASSIGN_OR_RETURN(const GridMode mode, readGridMode(n));
  const Tensor& x = n.in(0);
  const Tensor& grid = n.in(1);
  const int64_t rank = x.rank(), spatial = rank - 2;
  if (grid.rank() != rank || grid.shape[0] != x.shape[0] || grid.shape.back() != spatial || !isFloat(grid.dtype)) {
    return n.invalid(
        "the grid does not fit the input",
        {.attribute = "grid",
         .found = absl::StrCat(typeName(grid.dtype), " ", shapeText(grid.shape)),
         .accepted = absl::StrCat("floating point of rank ", rank, ", ", x.shape[0], " first, ", spatial, " last")});
  }
  if (mode.order == Order::kCubic && spatial > 2) {
    return n.unsupported("cubic interpolation in three dimensions",
                         {.attribute = "mode", .found = "cubic", .accepted = "linear, nearest"});
  }
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  if (x.elements() == 0) return n.invalid("the input is empty", {.attribute = "X", .found = shapeText(x.shape)});
  // 16-bit coordinates cannot address single elements of a larger image.
  const v1::DataType real = x.dtype == v1::DATA_TYPE_F64 ? v1::DATA_TYPE_F64 : v1::DATA_TYPE_F32;
  Value source = e.value(x), places = e.value(grid);
  std::vector<Value> lengths;  // per spatial dimension that is a range: its run-time size
  for (int64_t d = 2; d < rank; ++d) lengths.push_back(x.extents.contains(d) ? e.value(extentOf(x, d)) : Value());
  return {{e.generate(x.dtype, shape, [&](const Scalars& element, ValueRange at) -> Value {
    const Scalars s = element.as(real);
    auto coordinate = [&](int64_t which) {
      llvm::SmallVector<Value> place = {at[0]};
      place.append(at.begin() + 2, at.end());
      place.push_back(clampedCoordinate(s, s.as(v1::DATA_TYPE_I64).integer(which), spatial));
      return s.as(grid.dtype).cast(e.extract(s, places, place), real);
    };
    llvm::SmallVector<llvm::SmallVector<Neighbour>> axes;
    for (int64_t which = 0; which < spatial; ++which) {
      const int64_t dim = rank - 1 - which;
      Value length = lengths[static_cast<size_t>(dim - 2)];
      if (length) length = e.extract(s, length, {});
      axes.push_back(neighbours(s, coordinate(which), {x.shape[dim], length}, mode));
    }
    llvm::SmallVector<Value> from = {at[0], at[1]};
    return s.cast(Sample{s, element, e, source, real}.sum(axes, from, Value()), x.dtype);
  })}};
}

}  // namespace

std::vector<Operator> samplingOperators() {
  return {
      {"GridSample", 16, 2, 2, lowerGridSample, kFloats, 1, INT_MAX, "", sampledExtents},
  };
}

}  // namespace tessera::compiler
