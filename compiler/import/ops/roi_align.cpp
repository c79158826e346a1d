// RoiAlign: pools regions of an image (N x C x H x W) to a common size, interpolating between elements.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/indexing.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;
namespace scf = mlir::scf;

struct RoiMode {
  bool maximum = false;    ///< maximum of the samples' weighted neighbours, as in ONNX's own test; otherwise the
                           ///< samples' mean
  bool half_pixel = true;  ///< element centres are at integers plus one half
  int64_t height = 1, width = 1;
  int64_t samples = 0;  ///< per bin and dimension; 0: the bin's length in image elements, rounded up
  double scale = 1;     ///< image elements per unit of the regions
};

absl::StatusOr<RoiMode> readRoiMode(Node& n) {
  RoiMode mode;
  TESSERA_ASSIGN_OR_RETURN(const std::string pooling, n.text("mode", "avg"));
  if (pooling != "avg" && pooling != "max") {
    return n.invalid("unknown mode", {.attribute = "mode", .found = pooling, .accepted = "avg, max"});
  }
  mode.maximum = pooling == "max";
  // Before version 16 regions were not shifted by half a pixel.
  const bool has_transformation = n.opset() >= 16;
  std::string transformation = "output_half_pixel";
  if (has_transformation) {
    TESSERA_ASSIGN_OR_RETURN(transformation, n.text("coordinate_transformation_mode", "half_pixel"));
  }
  if (transformation != "half_pixel" && transformation != "output_half_pixel") {
    return n.invalid("unknown coordinate_transformation_mode", {.attribute = "coordinate_transformation_mode",
                                                                .found = transformation,
                                                                .accepted = "half_pixel, output_half_pixel"});
  }
  mode.half_pixel = transformation == "half_pixel";
  TESSERA_ASSIGN_OR_RETURN(mode.height, n.integer("output_height", 1));
  TESSERA_ASSIGN_OR_RETURN(mode.width, n.integer("output_width", 1));
  TESSERA_ASSIGN_OR_RETURN(mode.samples, n.integer("sampling_ratio", 0));
  TESSERA_ASSIGN_OR_RETURN(mode.scale, n.real("spatial_scale", 1));
  if (mode.height < 1 || mode.width < 1 || mode.height > INT32_MAX || mode.width > INT32_MAX) {
    return n.invalid("bad output size", {.attribute = "output_height",
                                         .found = absl::StrCat(mode.height, "x", mode.width),
                                         .accepted = "at least 1x1"});
  }
  if (mode.samples < 0 || mode.samples > 1024) {
    return n.invalid(
        "bad number of samples",
        {.attribute = "sampling_ratio", .found = absl::StrCat(mode.samples), .accepted = "0 (adaptive) to 1024"});
  }
  return mode;
}

absl::Status checkRoiInputs(const Node& n) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 4, 4));
  const Tensor& rois = n.in(1);
  const Tensor& batches = n.in(2);
  if (rois.rank() != 2 || rois.shape[1] != 4) {
    return n.invalid("the regions are not corners",
                     {.attribute = "rois", .found = shapeText(rois.shape), .accepted = "Rx4"});
  }
  if (batches.shape != Shape{rois.shape[0]} || batches.dtype != v1::DATA_TYPE_I64) {
    return n.invalid("the batch indices do not fit",
                     {.attribute = "batch_indices",
                      .found = absl::StrCat(typeName(batches.dtype), " ", shapeText(batches.shape)),
                      .accepted = absl::StrCat("i64 ", rois.shape[0])});
  }
  return absl::OkStatus();
}

/// One dimension of a sample: two neighbours and the weight of the second.
struct Sample {
  Value inside, low, high, weight;
};

/// One dimension of a region: its first coordinate in the image, and the length of a bin.
struct BinAxis {
  Value start, bin_length;
};

BinAxis binAxis(const Scalars& s, Value begin, Value end, int64_t bins, const RoiMode& mode) {
  const double offset = mode.half_pixel ? 0.5 : 0;
  Value start = s.fma(begin, s.constant(mode.scale), s.constant(-offset));
  Value length = s.sub(s.fma(end, s.constant(mode.scale), s.constant(-offset)), start);
  // The old form never has regions shorter than one pixel.
  if (!mode.half_pixel) length = s.max(length, s.constant(1));
  return {start, s.div(length, s.constant(static_cast<double>(bins)))};
}

/// Returns the sample at coordinate `at` of a dimension of `dim` elements.
Sample sampleAt(const Scalars& s, Value at, int64_t dim) {
  const auto last = static_cast<double>(dim - 1);
  Sample sample;
  // Up to one element outside still counts as the border.
  sample.inside = s.logicalAnd(s.compare(Relation::kGreaterOrEqual, at, s.constant(-1)),
                               s.compare(Relation::kLessOrEqual, at, s.constant(static_cast<double>(dim))));
  at = s.min(s.max(at, s.constant(0)), s.constant(last));
  Value below = s.math<mlir::math::FloorOp>(at);
  sample.low = clampedCoordinate(s, s.cast(below, v1::DATA_TYPE_I64), dim);
  // Exactly on an element both neighbours are that one: a NaN next to it has weight 0 and must not affect the sample.
  sample.high = clampedCoordinate(s, s.cast(s.math<mlir::math::CeilOp>(at), v1::DATA_TYPE_I64), dim);
  sample.weight = s.sub(at, below);
  return sample;
}

/// Samples the image (N x C x H x W) between its elements.
struct Image {
  Value values, number, channel;  ///< of the index type

  Value at(Emitter& e, const Scalars& s, const Sample& row, const Sample& column, bool maximum) const {
    auto between = [&](Value low, Value high, Value weight) {
      // Average interpolates linearly; maximum takes the greater of the weighted neighbours, as ONNX defines it.
      if (!maximum) return s.fma(s.sub(high, low), weight, low);
      return s.max(s.mul(low, s.sub(s.constant(1), weight)), s.mul(high, weight));
    };
    auto along = [&](Value line) {
      return between(e.extract(s, values, {number, channel, line, column.low}),
                     e.extract(s, values, {number, channel, line, column.high}), column.weight);
    };
    Value value = between(along(row.low), along(row.high), row.weight);
    return s.select(s.logicalAnd(row.inside, column.inside), value, s.constant(0));
  }
};

/// Samples of one bin along one dimension if their number depends on the region: ceil(bin length). They are more than
/// half an element apart, so few are inside the image, however large the region is; the others are 0.
struct AdaptiveAxis {
  Value start, step;  ///< of the samples
  Value number;       ///< of samples, i64; below 1: none
  Value first, end;   ///< index type: the range of samples that may be inside the image
  Value all_inside;   ///< whether all samples are in that range
};

AdaptiveAxis adaptiveAxis(const Scalars& s, const BinAxis& axis, Value bin, int64_t dim) {
  const Scalars wide = s.as(v1::DATA_TYPE_I64);
  const Value one = wide.integer(1), zero = wide.integer(0);
  AdaptiveAxis samples;
  samples.number = s.cast(s.math<mlir::math::CeilOp>(axis.bin_length), v1::DATA_TYPE_I64);
  // Without samples the divisor would be 0.
  const Value divisor = wide.cast(wide.max(samples.number, one), s.type);
  samples.start = s.fma(wide.cast(bin, s.type), axis.bin_length, axis.start);
  samples.step = s.div(axis.bin_length, divisor);
  // From start + (k + 0.5) step >= -1, minus one as a margin for rounding.
  const Value before = s.sub(s.div(s.sub(s.constant(-1), samples.start), samples.step), s.constant(1.5));
  const Value first = wide.min(wide.max(s.cast(before, v1::DATA_TYPE_I64), zero), wide.max(samples.number, zero));
  const Value most = wide.integer(2 * dim + 8);  // bound of the samples between -1 and dim
  const Value count = wide.min(wide.max(wide.sub(samples.number, first), zero), most);
  const auto toIndex = [&](Value v) -> Value {
    return mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), v);
  };
  samples.first = toIndex(first);
  samples.end = toIndex(wide.add(first, count));
  samples.all_inside = wide.compare(Relation::kEqual, count, samples.number);
  return samples;
}

/// Computes RoiAlign if the length of a bin decides its number of samples: loops with a run-time end.
Tensor adaptiveRoiAlign(Node& n, Emitter& e, const Shape& shape, const RoiMode& mode) {
  const Tensor& x = n.in(0);
  const Value source = e.value(x), corners = e.value(n.in(1)), images = e.value(n.in(2));
  const auto pooled = [&](const Scalars& s, ValueRange at) -> Value {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    auto corner = [&](int64_t which) {
      return e.extract(s, corners, {at[0], mlir::arith::ConstantIndexOp::create(s.b, s.loc, which).getResult()});
    };
    const Image image{source, clampedCoordinate(s, e.extract(wide, images, {at[0]}), x.shape[0]), at[1]};
    const AdaptiveAxis rows =
        adaptiveAxis(s, binAxis(s, corner(1), corner(3), mode.height, mode), position(s, at[2]), x.shape[2]);
    const AdaptiveAxis columns =
        adaptiveAxis(s, binAxis(s, corner(0), corner(2), mode.width, mode), position(s, at[3]), x.shape[3]);
    Value initial = s.constant(0);
    // Samples outside the image are 0, which a maximum must include.
    if (mode.maximum) {
      const Value some = wide.logicalAnd(wide.compare(Relation::kGreater, rows.number, wide.integer(0)),
                                         wide.compare(Relation::kGreater, columns.number, wide.integer(0)));
      const Value only = s.logicalAnd(s.logicalAnd(rows.all_inside, columns.all_inside), some);
      initial = s.select(only, s.lowest(), initial);
    }
    const Value one = mlir::arith::ConstantIndexOp::create(s.b, s.loc, 1);
    const auto sample = [](const Scalars& in, const AdaptiveAxis& axis, Value k, int64_t dim) {
      const Value place = in.add(in.as(v1::DATA_TYPE_I64).cast(position(in, k), in.type), in.constant(0.5));
      return sampleAt(in, in.fma(place, axis.step, axis.start), dim);
    };
    auto over_rows = scf::ForOp::create(
        s.b, s.loc, rows.first, rows.end, one, initial,
        [&](mlir::OpBuilder& rb, mlir::Location rl, Value row, ValueRange sum) {
          const Scalars rs(rb, rl, s.type);
          const Sample of_row = sample(rs, rows, row, x.shape[2]);
          auto over_columns = scf::ForOp::create(
              rb, rl, columns.first, columns.end, one, sum,
              [&](mlir::OpBuilder& cb, mlir::Location cl, Value column, ValueRange now) {
                const Scalars cs(cb, cl, s.type);
                const Value value = image.at(e, cs, of_row, sample(cs, columns, column, x.shape[3]), mode.maximum);
                scf::YieldOp::create(cb, cl, mode.maximum ? cs.max(now[0], value) : cs.add(now[0], value));
              });
          scf::YieldOp::create(rb, rl, over_columns.getResults());
        });
    const Value total = over_rows.getResult(0);
    if (mode.maximum) return total;
    // The average counts samples outside as well.
    const Value count = s.mul(wide.cast(rows.number, s.type), wide.cast(columns.number, s.type));
    return s.div(total, s.max(count, s.constant(1)));
  };
  Shape loops = shape;
  if (elementCount(shape) == 1) loops[2] = 2;  // code generation requires a loop: adds a row that is removed again
  const Value state[] = {e.empty(x.dtype, loops)};
  const auto results = serialLoops(
      e, loops, state,
      [&](mlir::OpBuilder& b, mlir::Location loc, ValueRange at, ValueRange now) -> llvm::SmallVector<Value> {
        return {mlir::tensor::InsertOp::create(b, loc, pooled(Scalars(b, loc, x.dtype), at), now[0], at).getResult()};
      });
  const Tensor result = Emitter::wrap(results[0], x.dtype);
  return loops == shape ? result : e.slice(result, {0, 0, 0, 0}, shape, {1, 1, 1, 1});
}

Results lowerRoiAlign(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const RoiMode mode, readRoiMode(n));
  TESSERA_RETURN_IF_ERROR(checkRoiInputs(n));
  const Tensor& x = n.in(0);
  const Shape shape = {n.in(1).shape[0], x.shape[1], mode.height, mode.width};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  if (x.elements() == 0) return n.invalid("the input is empty", {.attribute = "X", .found = shapeText(x.shape)});
  // With a fixed number of samples all loops are known, and code generation can optimize them.
  if (mode.samples == 0) return {{adaptiveRoiAlign(n, e, shape, mode)}};
  Value source = e.value(x), corners = e.value(n.in(1));
  // Loops: region, channel, row, column, sample row, sample column.
  mlir::MLIRContext* context = e.b.getContext();
  auto places = [&](llvm::ArrayRef<unsigned> dims) {
    llvm::SmallVector<AffineExpr> results;
    for (unsigned d : dims) results.push_back(mlir::getAffineDimExpr(d, context));
    return AffineMap::get(6, 0, results, context);
  };
  llvm::SmallVector<IteratorType> loops(6, IteratorType::parallel);
  loops[4] = loops[5] = IteratorType::reduction;
  const Scalars outer = e.scalars(x.dtype);
  Tensor init = e.filled(mode.maximum ? outer.lowest() : outer.constant(0), x.dtype, shape);
  // Operand without contents: it gives the loops over samples their lengths.
  Tensor extent = Emitter::wrap(e.empty(x.dtype, {mode.samples, mode.samples}), x.dtype);
  Tensor pooled = e.generic(x.dtype, shape, {{extent, places({4, 5})}, {n.in(2), places({0})}}, places({0, 1, 2, 3}),
                            loops, &init, [&](const Scalars& s, ValueRange v) {
                              const Scalars wide = s.as(v1::DATA_TYPE_I64);
                              llvm::SmallVector<Value> loop;
                              for (unsigned d = 0; d < 6; ++d)
                                loop.push_back(mlir::linalg::IndexOp::create(s.b, s.loc, d));
                              auto corner = [&](int64_t which) {
                                return e.extract(s, corners, {loop[0], clampedCoordinate(s, wide.integer(which), 4)});
                              };
                              auto sample = [&](int64_t first, Value bin, Value k, int64_t bins, int64_t dim) {
                                const BinAxis axis = binAxis(s, corner(first), corner(first + 2), bins, mode);
                                // Samples lie in the middle of equal parts of a bin.
                                Value within = s.div(s.add(wide.cast(position(s, k), s.type), s.constant(0.5)),
                                                     s.constant(static_cast<double>(mode.samples)));
                                Value steps = s.add(wide.cast(position(s, bin), s.type), within);
                                return sampleAt(s, s.fma(steps, axis.bin_length, axis.start), dim);
                              };
                              // Regions are x1, y1, x2, y2.
                              const Sample row = sample(1, loop[2], loop[4], mode.height, x.shape[2]);
                              const Sample column = sample(0, loop[3], loop[5], mode.width, x.shape[3]);
                              const Image image{source, clampedCoordinate(s, v[1], x.shape[0]), loop[1]};
                              Value value = image.at(e, s, row, column, mode.maximum);
                              return mode.maximum ? s.max(v.back(), value) : s.add(v.back(), value);
                            });
  if (mode.maximum) return {{std::move(pooled)}};
  const auto count = static_cast<double>(mode.samples * mode.samples);
  return {{e.elementwise(x.dtype, {pooled},
                         [count](const Scalars& s, ValueRange v) { return s.div(v[0], s.constant(count)); })}};
}

/// One result per region; regions beyond the extent do not matter.
absl::Status roiExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  TESSERA_RETURN_IF_ERROR(refuseExtents(n, 0, "regions refer to it"));
  auto of_regions = n.in(1).extents.find(0), of_batches = n.in(2).extents.find(0);
  if (of_regions == n.in(1).extents.end() || of_batches == n.in(2).extents.end() ||
      of_regions->second != of_batches->second || n.in(1).extents.size() > 1) {
    return refuseExtents(n, "rois and batch_indices may differ in number");
  }
  results[0].extents[0] = of_regions->second;
  return absl::OkStatus();
}

}  // namespace

std::vector<Operator> roiOperators() {
  return {
      {"RoiAlign", 10, 3, 3, lowerRoiAlign, kFloats, 2, INT_MAX, "", roiExtents},
  };
}

}  // namespace tessera::compiler
