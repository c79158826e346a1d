// DeformConv: a convolution with an offset and a mask weight for each tap. The displaced taps of all positions become
// channels of an image of the result's size; the rest is a convolution with a 1x1 kernel.
#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/convolution.h"
#include "compiler/import/ops/coordinates.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

/// Sizes of a two-dimensional deformable convolution. An offset group is a range of channels with common offsets.
struct KernelTaps {
  int64_t height, width;  ///< of the kernel
  int64_t count;          ///< height * width
  int64_t channels;       ///< of one offset group
};

/// Two neighbours along a dimension with their weights; one outside the dimension has weight 0.
struct Pair {
  std::array<Value, 2> coordinate, weight;
};

Pair neighbours(const Scalars& s, Value at, int64_t dim) {
  // Positions further outside also have weight 0; clamping keeps infinite ones finite.
  at = s.min(s.max(at, s.constant(-1)), s.constant(static_cast<double>(dim)));
  // Interpolates between the elements below and above.
  Value below = s.math<mlir::math::FloorOp>(at);
  Value place = s.cast(below, kI64), above = s.sub(at, below);
  const Scalars wide = s.as(kI64);
  Pair pair;
  for (int i = 0; i < 2; ++i) {
    Value neighbour = wide.add(place, wide.integer(i));
    pair.coordinate[i] = clampedCoordinate(s, neighbour, dim);
    Value weight = i == 1 ? above : s.sub(s.constant(1), above);
    pair.weight[i] = s.select(isInside(s, neighbour, dim), weight, s.constant(0));
  }
  return pair;
}

/// Returns x at the taps of all positions: [N, C * taps, output...].
Tensor movedTaps(Node& n, Emitter& e, const KernelTaps& taps, const Window& window) {
  const Tensor& x = n.in(0);
  // 16-bit inputs are interpolated in f32.
  const v1::DataType real = elementBytes(x.dtype) == 2 ? v1::DATA_TYPE_F32 : x.dtype;
  Value source = e.value(x), offsets = e.value(n.in(2)), mask = n.has(4) ? e.value(n.in(4)) : Value();
  const Shape shape = {x.shape[0], x.shape[1] * taps.count, window.output[0], window.output[1]};
  return e.generate(x.dtype, shape, [&](const Scalars& element, ValueRange at) -> Value {
    const Scalars s = element.as(real), wide = s.as(kI64);
    // Row of the result: channel and tap.
    Value row = position(s, at[1]);
    Value channel = wide.div(row, wide.integer(taps.count));
    Value tap = wide.remainder(row, wide.integer(taps.count));
    Value group = wide.div(channel, wide.integer(taps.channels));
    // Channels of a group share their offsets.
    Value shared = wide.add(wide.mul(group, wide.integer(taps.count)), tap);
    auto read = [&](Value tensor, Value from, int64_t rows) {
      return element.cast(e.extract(s, tensor, {at[0], clampedCoordinate(s, from, rows), at[2], at[3]}), real);
    };
    // Along dimension d (0: rows): place * stride - pad + tap * dilation + offset.
    auto along = [&](int64_t d) {
      Value step = d == 0 ? wide.div(tap, wide.integer(taps.width)) : wide.remainder(tap, wide.integer(taps.width));
      Value start =
          wide.sub(wide.mul(position(s, at[2 + d]), wide.integer(window.strides[d])), wide.integer(window.low[d]));
      Value regular = wide.add(start, wide.mul(step, wide.integer(window.dilations[d])));
      Value moved = read(offsets, wide.add(wide.mul(shared, wide.integer(2)), wide.integer(d)), n.in(2).shape[1]);
      return neighbours(s, s.add(wide.cast(regular, real), moved), x.shape[2 + d]);
    };
    const Pair rows = along(0), columns = along(1);
    Value image = clampedCoordinate(s, channel, x.shape[1]), sum;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        Value pixel = e.extract(s, source, {at[0], image, rows.coordinate[i], columns.coordinate[j]});
        Value part = s.mul(element.cast(pixel, real), s.mul(rows.weight[i], columns.weight[j]));
        sum = sum ? s.add(sum, part) : part;
      }
    }
    if (mask) sum = s.mul(sum, read(mask, shared, n.in(4).shape[1]));
    return s.cast(sum, x.dtype);
  });
}

Results lowerDeformConv(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 4, 4));
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(Filter f, readFilter(n, x, n.in(1)));
  TESSERA_ASSIGN_OR_RETURN(const Window window, readWindow(n, {x.shape[2], x.shape[3]}, f.kernel, false));
  TESSERA_ASSIGN_OR_RETURN(const int64_t groups, n.integer("offset_group", 1));
  if (groups < 1 || groups > x.shape[1] || x.shape[1] % groups != 0) {
    return n.invalid("the channels do not divide into offset groups",
                     {.attribute = "offset_group",
                      .found = absl::StrCat(groups),
                      .accepted = absl::StrCat("a divisor of ", x.shape[1])});
  }
  const KernelTaps taps = {f.kernel[0], f.kernel[1], f.kernel[0] * f.kernel[1], x.shape[1] / groups};
  const Shape places = {window.output[0], window.output[1]};
  auto perTap = [&](int64_t values) { return Shape{x.shape[0], groups * taps.count * values, places[0], places[1]}; };
  const Shape moved = {x.shape[0], x.shape[1] * taps.count, places[0], places[1]};
  TESSERA_RETURN_IF_ERROR(n.checkResult(perTap(2), x.dtype));
  TESSERA_RETURN_IF_ERROR(n.checkResult(moved, x.dtype));
  TESSERA_RETURN_IF_ERROR(n.requireShape(2, perTap(2), "offset"));
  TESSERA_RETURN_IF_ERROR(n.requireShape(4, perTap(1), "mask"));
  const Shape shape = {x.shape[0], f.outputs, places[0], places[1]};
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (x.elements() == 0 && elementCount(shape) > 0) {
    return n.invalid("the input is empty", {.attribute = "X", .found = shapeText(x.shape)});
  }
  f.channels *= taps.count;
  f.kernel = {1, 1};
  const Window one = {
      .kernel = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}, .low = {0, 0}, .high = {0, 0}, .output = window.output};
  const Tensor weight = e.reshape(n.in(1), {f.outputs, f.channels, 1, 1});
  const Tensor product = convolve(e, movedTaps(n, e, taps, window), weight, f, one);
  TESSERA_ASSIGN_OR_RETURN(Tensor result, addBias(n, e, product, 3));
  return {{std::move(result)}};
}

}  // namespace

std::vector<Operator> deformableConvolutionOperators() {
  return {
      {"DeformConv", 19, 3, 5, lowerDeformConv, kFloats, 5},
  };
}

}  // namespace tessera::compiler
