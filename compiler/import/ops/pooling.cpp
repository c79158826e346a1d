// Pooling over N x C x spatial... tensors.
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/statistics.h"
#include "compiler/import/ops/window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

absl::StatusOr<Window> poolWindow(Node& n) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  const size_t rank = n.in(0).shape.size() - 2;
  if (!n.hasAttribute("kernel_shape")) return n.integers("kernel_shape").status();
  TESSERA_ASSIGN_OR_RETURN(const auto kernel, spatialAttribute(n, "kernel_shape", rank, 1, 1));
  TESSERA_ASSIGN_OR_RETURN(const bool ceil_mode, n.flag("ceil_mode", false));
  const Shape& shape = n.in(0).shape;
  TESSERA_ASSIGN_OR_RETURN(Window window, readWindow(n, {shape.begin() + 2, shape.end()}, kernel, ceil_mode));
  // Checks the padded input as well, because it is materialized.
  Shape padded = shape, output = {shape[0], shape[1]};
  for (size_t d = 0; d < rank; ++d) padded[2 + d] += window.low[d] + window.high[d];
  output.insert(output.end(), window.output.begin(), window.output.end());
  TESSERA_RETURN_IF_ERROR(n.checkResult(padded, n.in(0).dtype));
  TESSERA_RETURN_IF_ERROR(n.checkResult(output, v1::DATA_TYPE_I64));
  return window;
}

Shape poolShape(const Tensor& x, const Window& window) {
  Shape shape = {x.shape[0], x.shape[1]};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  return shape;
}

/// Reduces each window of a padded x. The window itself is an operand without data, as in linalg's pools.
Tensor poolGeneric(Emitter& e, const Tensor& x, const Window& window, Value init, Emitter::Body combine) {
  const auto s = static_cast<unsigned>(window.rank());
  mlir::MLIRContext* context = e.b.getContext();
  auto dim = [&](unsigned position) { return mlir::getAffineDimExpr(position, context); };
  llvm::SmallVector<AffineExpr> in = {dim(0), dim(1)}, kernel, out = {dim(0), dim(1)};
  for (unsigned d = 0; d < s; ++d) {
    // A kernel's step moves by its dilation, a result's step by its stride.
    in.push_back(dim(2 + d) * window.strides[d] + dim(2 + s + d) * window.dilations[d]);
    kernel.push_back(dim(2 + s + d));
    out.push_back(dim(2 + d));
  }
  llvm::SmallVector<IteratorType> loops(2 + 2 * s, IteratorType::parallel);
  for (unsigned d = 2 + s; d < 2 + 2 * s; ++d) loops[d] = IteratorType::reduction;
  const Shape shape = poolShape(x, window);
  Tensor start = e.filled(init, x.dtype, shape);
  Tensor extent = Emitter::wrap(e.empty(x.dtype, window.kernel), x.dtype);
  return e.generic(
      x.dtype, shape,
      {{x, AffineMap::get(2 + 2 * s, 0, in, context)}, {extent, AffineMap::get(2 + 2 * s, 0, kernel, context)}},
      AffineMap::get(2 + 2 * s, 0, out, context), loops, &start,
      [&](const Scalars& sc, ValueRange v) { return combine(sc, {v[0], v[2]}); });
}

template <typename Op>
Tensor poolNamed(Emitter& e, const Tensor& x, const Window& window, Value init) {
  auto type = mlir::RankedTensorType::get({2}, e.b.getI64Type());
  Value start = e.filled(init, x.dtype, poolShape(x, window)).value;
  Value extent = e.empty(x.dtype, window.kernel);
  auto op = Op::create(e.b, e.loc, mlir::TypeRange{start.getType()}, ValueRange{e.value(x), extent}, ValueRange{start},
                       mlir::DenseIntElementsAttr::get(type, window.strides),
                       mlir::DenseIntElementsAttr::get(type, window.dilations));
  return Emitter::wrap(op->getResult(0), x.dtype);
}

/// Returns the position of each window's first maximum as an index into the flattened unpadded tensor; NaN counts as
/// one.
Tensor maximumPositions(Emitter& e, const Tensor& x, const Tensor& maxima, const Window& window) {
  const size_t s = window.rank();
  const Scalars index = e.scalars(v1::DATA_TYPE_I64);
  const Shape shape = maxima.shape;
  Value source = e.value(x);
  Tensor none = e.filled(index.highest(), v1::DATA_TYPE_I64, shape);
  Tensor extent = Emitter::wrap(e.empty(x.dtype, window.kernel), x.dtype);
  // Over all positions of a window: the least one that is inside the input and equals the maximum.
  const auto rank = static_cast<unsigned>(2 + 2 * s);
  mlir::MLIRContext* context = e.b.getContext();
  llvm::SmallVector<AffineExpr> kernel, out;
  for (unsigned d = 0; d < 2 + s; ++d) out.push_back(mlir::getAffineDimExpr(d, context));
  for (unsigned d = 2 + s; d < rank; ++d) kernel.push_back(mlir::getAffineDimExpr(d, context));
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  for (unsigned d = 2 + s; d < rank; ++d) loops[d] = IteratorType::reduction;
  return e.generic(
      v1::DATA_TYPE_I64, shape,
      {{extent, AffineMap::get(rank, 0, kernel, context)}, {maxima, AffineMap::get(rank, 0, out, context)}},
      AffineMap::get(rank, 0, out, context), loops, &none, [&](const Scalars& sc, ValueRange v) -> Value {
        namespace arith = mlir::arith;
        auto constant = [&](int64_t value) { return arith::ConstantIndexOp::create(sc.b, sc.loc, value).getResult(); };
        // Searches the window again for elements equal to the maximum; padding is skipped.
        auto loop = [&](unsigned d) { return mlir::linalg::IndexOp::create(sc.b, sc.loc, d).getResult(); };
        llvm::SmallVector<Value> at = {loop(0), loop(1)};
        Value inside = sc.as(v1::DATA_TYPE_BOOL).integer(1);
        for (unsigned d = 0; d < s; ++d) {
          Value place = arith::AddIOp::create(
              sc.b, sc.loc, arith::MulIOp::create(sc.b, sc.loc, loop(2 + d), constant(window.strides[d])),
              arith::MulIOp::create(sc.b, sc.loc, loop(2 + static_cast<unsigned>(s) + d),
                                    constant(window.dilations[d])));
          place = arith::SubIOp::create(sc.b, sc.loc, place, constant(window.low[d]));
          // The position may be in the padding before the input.
          Value valid = arith::CmpIOp::create(sc.b, sc.loc, arith::CmpIPredicate::ult, place,
                                              constant(x.shape[2 + d]));  // compared as unsigned: a negative position
                                                                          // is large
          inside = sc.logicalAnd(inside, valid);
          at.push_back(sc.select(valid, place, constant(0)));
        }
        Value element = mlir::tensor::ExtractOp::create(sc.b, sc.loc, source, at);
        // ONNX numbers elements through the whole input, batch and channels included.
        Value position = arith::AddIOp::create(sc.b, sc.loc,
                                               arith::MulIOp::create(sc.b, sc.loc, at[0], constant(x.shape[1])), at[1]);
        for (unsigned d = 0; d < s; ++d) {
          position = arith::AddIOp::create(
              sc.b, sc.loc, arith::MulIOp::create(sc.b, sc.loc, position, constant(x.shape[2 + d])), at[2 + d]);
        }
        Value number = arith::IndexCastOp::create(sc.b, sc.loc, sc.b.getI64Type(), position);
        const Scalars wide = sc.as(v1::DATA_TYPE_I64);
        const Scalars real = sc.as(x.dtype);
        Value greatest = real.compare(Relation::kEqual, element, v[1]);
        // A window with a NaN has the maximum NaN, which equals nothing.
        if (isFloat(x.dtype)) {
          greatest = sc.logicalOr(greatest, sc.logicalNot(real.compare(Relation::kEqual, element, element)));
        }
        Value hit = sc.logicalAnd(inside, greatest);
        // The first of several equal elements counts.
        return wide.min(v[2], wide.select(hit, number, wide.highest()));
      });
}

/// Converts positions to column-major order: the first spatial dimension varies fastest.
Tensor columnMajor(Emitter& e, const Tensor& x, const Tensor& positions) {
  const auto rank = static_cast<unsigned>(positions.shape.size());
  const AffineMap all = e.b.getMultiDimIdentityMap(rank);
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  return e.generic(v1::DATA_TYPE_I64, positions.shape, {{positions, all}}, all, loops, nullptr,
                   [&](const Scalars& any, ValueRange v) -> Value {
                     const Scalars s = any.as(v1::DATA_TYPE_I64);
                     // Takes the position apart from the last dimension to the first, and puts it together in the
                     // opposite order.
                     Value rest = v[0], within = s.integer(0);
                     for (auto d = static_cast<int64_t>(x.shape.size()) - 1; d >= 2; --d) {
                       Value extent = s.integer(x.shape[d]);
                       within = s.fma(within, extent, s.remainder(rest, extent));
                       rest = s.div(rest, extent);
                     }
                     int64_t plane = 1;
                     for (size_t d = 2; d < x.shape.size(); ++d) plane *= x.shape[d];
                     return s.add(s.mul(rest, s.integer(plane)), within);
                   });
}

Results lowerMaxPool(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool column_major, n.flag("storage_order", false));
  TESSERA_ASSIGN_OR_RETURN(Window window, poolWindow(n));
  Tensor x = n.in(0);
  // A position would number elements of the tensor's bounds instead of its run-time size.
  if (n.wants(1) && x.extents.size() > x.extents.count(0)) {
    return refuseExtents(n, "positions are those of the whole input");
  }
  TESSERA_ASSIGN_OR_RETURN(const auto extents,
                           resultExtentsOfWindow(n, e, x, window, [](const Scalars& s) { return s.lowest(); }));
  // Padding never wins.
  const Value lowest = e.scalars(x.dtype).lowest();
  const Tensor padded = padSpatial(e, x, window, lowest);
  // linalg has named operations for two dimensions of floats, which kernels recognize.
  Tensor maxima =
      window.rank() == 2 && isFloat(x.dtype)
          ? poolNamed<mlir::linalg::PoolingNchwMaxOp>(e, padded, window, lowest)
          : poolGeneric(e, padded, window, lowest, [](const Scalars& s, ValueRange v) { return s.max(v[0], v[1]); });
  maxima.extents = extents;
  if (!n.wants(1)) return {{std::move(maxima)}};
  Tensor positions = maximumPositions(e, x, maxima, window);
  if (column_major) positions = columnMajor(e, x, positions);
  positions.extents = extents;
  return {{std::move(maxima), std::move(positions)}};
}

Tensor sumPool(Emitter& e, const Tensor& padded, const Window& window) {
  const Value zero = e.scalars(padded.dtype).constant(0);
  if (window.rank() == 2) return poolNamed<mlir::linalg::PoolingNchwSumOp>(e, padded, window, zero);
  return poolGeneric(e, padded, window, zero, [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
}

/// Returns the elements of each window inside the input, or, with `count_pads`, inside the declared padding too; at
/// least 1, so that a window of padding only gives 0 instead of 0 / 0. Shape: the window's output.
ConstantPtr windowCounts(const Window& window, const Shape& x, const std::vector<int64_t>& declared_high,
                         bool count_pads, v1::DataType dtype) {
  std::vector<double> counts = {1.0};
  for (size_t d = 0; d < window.rank(); ++d) {
    const int64_t begin = count_pads ? -window.low[d] : 0;
    const int64_t end = x[2 + d] + (count_pads ? declared_high[d] : 0);
    std::vector<double> next;
    std::vector<double> along;
    for (int64_t o = 0; o < window.output[d]; ++o) {
      int64_t inside = 0;
      for (int64_t k = 0; k < window.kernel[d]; ++k) {
        const int64_t at = o * window.strides[d] + k * window.dilations[d] - window.low[d];
        inside += at >= begin && at < end;
      }
      along.push_back(static_cast<double>(inside));
    }
    // The count of a window is the product of its counts along each dimension.
    for (double outer : counts) {
      for (double inner : along) next.push_back(outer * inner);
    }
    counts = std::move(next);
  }
  for (double& count : counts) count = std::max(count, 1.0);
  return realConstant(dtype, window.output, counts);
}

/// Like windowCounts(), for an input whose end varies with a range: sums of ones over the windows.
absl::StatusOr<Tensor> liveCounts(Node& n, Emitter& e, Window window, const std::vector<int64_t>& declared_high,
                                  bool count_pads) {
  const Tensor& x = n.in(0);
  Shape shape = x.shape;
  shape[0] = shape[1] = 1;
  // With counted padding, the ones cover it as well.
  for (size_t d = 0; d < window.rank() && count_pads; ++d) {
    shape[2 + d] += window.low[d] + declared_high[d];
    window.high[d] -= declared_high[d];
  }
  Tensor ones = e.filled(e.scalars(x.dtype).constant(1), x.dtype, shape);
  ones.extents.clear();
  const auto none = [](const Scalars& s) { return s.constant(0); };
  for (const auto& [dim, extent] : x.extents) {
    if (dim < 2) continue;
    ones.extents[dim] = extent;
    // Elements that do not exist in this run must not count.
    if (!count_pads) continue;
    const auto d = static_cast<size_t>(dim) - 2;
    setExtent(ones, dim, scaledExtent(e, extentOf(x, dim), 1, window.low[d] + declared_high[d]));
    ones = masked(e, ones, dim, none);
  }
  if (count_pads) {
    std::fill(window.low.begin(), window.low.end(), 0);
  } else {
    TESSERA_RETURN_IF_ERROR(resultExtentsOfWindow(n, e, ones, window, none).status());
  }
  return sumPool(e, padSpatial(e, ones, window, e.scalars(x.dtype).constant(0)), window);
}

Results lowerAveragePool(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const bool count_pads, n.flag("count_include_pad", false));
  TESSERA_ASSIGN_OR_RETURN(Window window, poolWindow(n));
  Tensor x = n.in(0);
  const Window declared_window = window;
  TESSERA_ASSIGN_OR_RETURN(const auto extents,
                           resultExtentsOfWindow(n, e, x, window, [](const Scalars& s) { return s.constant(0); }));
  // Padding added by ceil_mode never counts.
  const std::vector<int64_t>& declared = declared_window.declared_high;
  const Tensor sum = sumPool(e, padSpatial(e, x, window, e.scalars(x.dtype).constant(0)), window);
  // Smaller sizes of a range may need padding that the bound does not need.
  const bool live = std::any_of(n.in(0).extents.begin(), n.in(0).extents.end(), [&](const auto& extent) {
    const auto d = static_cast<size_t>(extent.first) - 2;
    const bool follows = declared_window.rule != Window::Rule::kGiven && declared_window.strides[d] > 1;
    return extent.first >= 2 && (follows || declared_window.high[d] > 0);
  });
  const bool rounded_up = live && declared_window.rule == Window::Rule::kCeil;
  const bool uniform =
      count_pads ? declared == declared_window.high && !rounded_up : !declared_window.padded() && !live;
  // All windows have the same number of elements.
  if (uniform) {
    const auto count = static_cast<double>(elementCount(window.kernel));
    Tensor result = e.elementwise(x.dtype, {sum},
                                  [count](const Scalars& s, ValueRange v) { return s.div(v[0], s.constant(count)); });
    result.extents = extents;
    return {{std::move(result)}};
  }
  if (live) {
    TESSERA_ASSIGN_OR_RETURN(const Tensor counts, liveCounts(n, e, declared_window, declared, count_pads));
    Tensor result = e.elementwise(x.dtype, {sum, e.broadcast(counts, sum.shape)}, [](const Scalars& s, ValueRange v) {
      return s.div(v[0], s.max(v[1], s.constant(1)));
    });
    result.extents = extents;
    return {{std::move(result)}};
  }
  // The counts are a table; an adversarial window could make it, or computing it, arbitrarily large.
  if (elementCount(window.output) > (int64_t{1} << 24)) {
    return n.unsupported("a padded window over this many outputs", {.attribute = "pads",
                                                                    .found = shapeText(window.output),
                                                                    .accepted = "up to 2^24 outputs in one channel",
                                                                    .remedy = "set count_include_pad"});
  }
  for (size_t d = 0; d < window.rank(); ++d) {
    if (window.output[d] * window.kernel[d] > (int64_t{1} << 28)) {
      return n.invalid("the window is too large to be padded",
                       {.attribute = "kernel_shape", .found = shapeText(window.kernel)});
    }
  }
  Tensor counts = Emitter::wrap(windowCounts(window, x.shape, declared, count_pads, x.dtype));
  Tensor result =
      e.elementwise(x.dtype, {sum, counts}, [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
  result.extents = extents;
  return {{std::move(result)}};
}

/// Reduces all spatial dimensions to size 1.
template <auto kCombine, auto kInit>
absl::StatusOr<Tensor> global(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  Tensor x = n.in(0);
  llvm::SmallVector<int64_t> dims;
  Shape shape = {x.shape[0], x.shape[1]};
  for (int64_t d = 2; d < x.rank(); ++d) {
    dims.push_back(d);
    shape.push_back(1);
    if (x.extents.contains(d)) x = masked(e, x, d, kInit);
  }
  Tensor reduced = e.reduce(x, dims, x.dtype, kInit(e.scalars(x.dtype)),
                            [](const Scalars& s, ValueRange v) { return (s.*kCombine)(v[0], v[1]); });
  Tensor result = e.reshape(reduced, shape);
  for (const auto& [dim, extent] : x.extents) {
    if (dim < 2) result.extents[dim] = extent;
  }
  return result;
}

Results lowerGlobalMaxPool(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(Tensor maximum, (global<&Scalars::max, [](const Scalars& s) { return s.lowest(); }>(n, e)));
  return {{std::move(maximum)}};
}

Results lowerGlobalAveragePool(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Tensor sum,
                           (global<&Scalars::add, [](const Scalars& s) { return s.constant(0); }>(n, e)));
  double count = 1;
  Tensor present;  // number of elements along dimensions with a run-time extent
  for (int64_t d = 2; d < n.in(0).rank(); ++d) {
    if (!n.in(0).extents.contains(d)) {
      count *= static_cast<double>(n.in(0).shape[d]);
      continue;
    }
    const Tensor extent = e.cast(extentOf(n.in(0), d), sum.dtype);
    present = !present.value ? extent : e.elementwise(sum.dtype, {present, extent}, [](const Scalars& s, ValueRange v) {
      return s.mul(v[0], v[1]);
    });
  }
  std::vector<Tensor> operands = {sum};
  if (present.value) operands.push_back(present);
  Tensor mean = e.elementwise(sum.dtype, operands, [count](const Scalars& s, ValueRange v) {
    return s.div(v[0], v.size() > 1 ? s.mul(v[1], s.constant(count)) : s.constant(count));
  });
  mean.extents = sum.extents;
  return {{std::move(mean)}};
}

/// |x|^p
Value power(const Scalars& s, Value x, double p) {
  if (p == 2) return s.mul(x, x);
  if (p == 1) return s.abs(x);
  return s.math<mlir::math::PowFOp>(s.abs(x), s.constant(p));
}
Value root(const Scalars& s, Value x, double p) {
  if (p == 2) return s.math<mlir::math::SqrtOp>(x);
  return p == 1 ? x : s.math<mlir::math::PowFOp>(x, s.constant(1 / p));
}

Results lowerLpPool(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t p, n.integer("p", 2));
  TESSERA_ASSIGN_OR_RETURN(const Window window, poolWindow(n));
  const auto exponent = static_cast<double>(p);
  Tensor powers = e.elementwise(n.in(0).dtype, {n.in(0)},
                                [exponent](const Scalars& s, ValueRange v) { return power(s, v[0], exponent); });
  Tensor sum = sumPool(e, padSpatial(e, powers, window, e.scalars(powers.dtype).constant(0)), window);
  return {{e.elementwise(sum.dtype, {sum},
                         [exponent](const Scalars& s, ValueRange v) { return root(s, v[0], exponent); })}};
}

Results lowerGlobalLpPool(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  // A float in version 1, an integer since.
  double exponent = 2;
  if (n.opset() < 2) {
    TESSERA_ASSIGN_OR_RETURN(exponent, n.real("p", 2));
  } else {
    TESSERA_ASSIGN_OR_RETURN(const int64_t p, n.integer("p", 2));
    exponent = static_cast<double>(p);
  }
  Tensor powers = e.elementwise(n.in(0).dtype, {n.in(0)},
                                [exponent](const Scalars& s, ValueRange v) { return power(s, v[0], exponent); });
  std::vector<int64_t> dims(static_cast<size_t>(powers.rank() - 2));
  std::iota(dims.begin(), dims.end(), 2);
  Tensor sum = reduceKeepingDims(e, powers, dims, Reduction::kSum);
  return {{e.elementwise(sum.dtype, {sum},
                         [exponent](const Scalars& s, ValueRange v) { return root(s, v[0], exponent); })}};
}

}  // namespace

std::vector<Operator> poolingOperators() {
  return {
      {"MaxPool", 1, 1, 1, lowerMaxPool, kNumbers, 1, INT_MAX, "", extentsByLowering},
      {"AveragePool", 1, 1, 1, lowerAveragePool, kFloats, 1, INT_MAX, "", extentsByLowering},
      {"LpPool", 2, 1, 1, lowerLpPool, kFloats, 1, INT_MAX, "", independentRowExtents},
      {"GlobalLpPool", 1, 1, 1, lowerGlobalLpPool, kFloats, 1, INT_MAX, "", independentRowExtents},
      {"GlobalMaxPool", 1, 1, 1, lowerGlobalMaxPool, kFloats, 1, INT_MAX, "", extentsByLowering},
      {"GlobalAveragePool", 1, 1, 1, lowerGlobalAveragePool, kFloats, 1, INT_MAX, "", extentsByLowering},
  };
}

}  // namespace tessera::compiler
