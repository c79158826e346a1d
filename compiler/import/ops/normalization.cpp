// Normalizations and softmax: statistics by reductions, then one elementwise operation.
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// Widens 16-bit floats to f32: a formula of several steps is rounded once, at the end.
Tensor inWidest(Emitter& e, const Tensor& x) { return elementBytes(x.dtype) == 2 ? e.cast(x, v1::DATA_TYPE_F32) : x; }

/// Training mode: computes y from the statistics of this batch, and moves the running mean and variance towards them.
/// `aligned` is the shape in which a value per channel broadcasts against the input.
Results normalizeBatch(Node& n, Emitter& e, double epsilon, double momentum, const Shape& aligned) {
  const Tensor x = inWidest(e, n.in(0));
  if (x.rank() < 2 || x.elements() == 0) {
    return n.invalid("a batch without elements per channel",
                     {.attribute = "X", .found = shapeText(x.shape), .accepted = "rank 2 or more, no empty dimension"});
  }
  std::vector<int64_t> dims(x.rank() - 1);
  std::iota(dims.begin(), dims.end(), 1);
  dims[0] = 0;  // all dimensions except the channels, which are dimension 1
  const Tensor mean = e.reshape(reduceKeepingDims(e, x, dims, Reduction::kMean), aligned);
  const Tensor centred =
      e.elementwise(x.dtype, {x, mean}, [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
  const Tensor variance = e.reshape(reduceKeepingDims(e, centred, dims, Reduction::kMeanSquare), aligned);
  std::vector<Tensor> operands = {centred, variance};
  for (int i : {1, 2}) operands.push_back(e.reshape(e.cast(n.in(i), x.dtype), aligned));
  Tensor y = e.elementwise(x.dtype, operands, [epsilon](const Scalars& s, ValueRange v) {
    Value deviation = s.math<mlir::math::SqrtOp>(s.add(v[1], s.constant(epsilon)));
    return s.fma(s.div(v[0], deviation), v[2], v[3]);
  });
  auto moved = [&](const Tensor& running, const Tensor& current) {
    const Tensor now = e.cast(e.reshape(current, running.shape), running.dtype);
    return e.elementwise(running.dtype, {running, now}, [momentum](const Scalars& s, ValueRange v) {
      return s.fma(v[0], s.constant(momentum), s.mul(v[1], s.constant(1 - momentum)));
    });
  };
  return {{e.cast(y, n.in(0).dtype), moved(n.in(3), mean), moved(n.in(4), variance)}};
}

/// Inference: y = x * scale + shift per channel, with scale = gamma / sqrt(var + epsilon) and shift = beta - mean *
/// scale. For constant statistics these are computed here, in double precision.
Results lowerBatchNormalization(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-5));
  TESSERA_ASSIGN_OR_RETURN(const double momentum, n.real("momentum", 0.9));
  n.ignore("is_test");
  TESSERA_ASSIGN_OR_RETURN(const bool spatial, n.flag("spatial", true));
  TESSERA_ASSIGN_OR_RETURN(const bool training, n.flag("training_mode", false));
  if (!spatial) return n.unsupported("statistics per element", {.attribute = "spatial", .found = "0", .accepted = "1"});
  const Tensor x = inWidest(e, n.in(0));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  const int64_t channels = x.rank() > 1 ? x.shape[1] : 1;
  bool constant = true;
  for (int i = 1; i < 5; ++i) {
    if (n.in(i).shape != Shape{channels} || !isFloat(n.in(i).dtype)) {
      return n.invalid(absl::StrCat("input ", i, " has the shape ", shapeText(n.in(i).shape)),
                       {.attribute = absl::StrCat("input ", i),
                        .found = shapeText(n.in(i).shape),
                        .accepted = absl::StrCat("floating point of shape ", channels)});
    }
    constant &= n.in(i).constant != nullptr;
  }
  Shape aligned(std::max<int64_t>(x.rank() - 1, 0), 1);
  if (!aligned.empty()) aligned[0] = channels;
  if (training) return normalizeBatch(n, e, epsilon, momentum, aligned);
  if (!constant) {
    std::vector<Tensor> operands = {x};
    for (int i = 1; i < 5; ++i) operands.push_back(e.reshape(e.cast(n.in(i), x.dtype), aligned));
    Tensor y = e.elementwise(x.dtype, operands, [epsilon](const Scalars& s, ValueRange v) {
      Value deviation = s.math<mlir::math::SqrtOp>(s.add(v[4], s.constant(epsilon)));
      return s.fma(s.div(s.sub(v[0], v[3]), deviation), v[1], v[2]);
    });
    return {{e.cast(y, n.in(0).dtype)}};
  }
  std::vector<double> scale(channels), shift(channels);
  for (int64_t c = 0; c < channels; ++c) {
    scale[c] = n.in(1).constant->realAt(c) / std::sqrt(n.in(4).constant->realAt(c) + epsilon);
    shift[c] = n.in(2).constant->realAt(c) - n.in(3).constant->realAt(c) * scale[c];
  }
  Tensor factor = Emitter::wrap(realConstant(x.dtype, aligned, scale));
  Tensor offset = Emitter::wrap(realConstant(x.dtype, aligned, shift));
  Tensor y = e.elementwise(x.dtype, {x, factor, offset},
                           [](const Scalars& s, ValueRange v) { return s.fma(v[0], v[1], v[2]); });
  return {{e.cast(y, n.in(0).dtype)}};
}

struct SoftmaxParts {
  Tensor shifted;  ///< x - max
  Tensor sum;      ///< sum of exp(x - max), reduced dimensions of size 1
  Tensor powers;   ///< exp(x - max)
};

/// Before version 13, softmax normalized over all dimensions from `axis` on together.
absl::StatusOr<std::vector<int64_t>> softmaxDims(Node& n) {
  const int64_t rank = n.in(0).rank();
  if (n.opset() >= 13) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, rank));
    return std::vector<int64_t>{axis};
  }
  TESSERA_ASSIGN_OR_RETURN(int64_t axis, n.integer("axis", 1));
  // The axis may be the rank: nothing is normalized then.
  if (axis != rank) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.normalizeAxis(axis, rank, "axis"));
  }
  std::vector<int64_t> dims(rank - axis);
  std::iota(dims.begin(), dims.end(), axis);
  return dims;
}

SoftmaxParts softmaxParts(Emitter& e, const Tensor& given, const std::vector<int64_t>& dims) {
  SoftmaxParts parts;
  Tensor x = given;  // elements beyond an extent have no weight
  for (int64_t dim : dims) {
    // The lowest number has the power 0 and is never the maximum.
    if (x.extents.contains(dim)) x = masked(e, x, dim, [](const Scalars& s) { return s.lowest(); });
  }
  Tensor maximum = reduceKeepingDims(e, x, dims, Reduction::kMax);
  // Subtracting the maximum keeps the exponentials from overflowing.
  parts.shifted =
      e.elementwise(x.dtype, {x, maximum}, [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
  parts.powers = e.elementwise(x.dtype, {parts.shifted},
                               [](const Scalars& s, ValueRange v) { return s.math<mlir::math::ExpOp>(v[0]); });
  parts.sum = reduceKeepingDims(e, parts.powers, dims, Reduction::kSum);
  return parts;
}

Results lowerSoftmax(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const auto dims, softmaxDims(n));
  SoftmaxParts parts = softmaxParts(e, n.in(0), dims);
  return {{e.elementwise(n.in(0).dtype, {parts.powers, parts.sum},
                         [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); })}};
}

Results lowerLogSoftmax(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const auto dims, softmaxDims(n));
  return {{logSoftmax(e, n.in(0), dims)}};
}

/// Returns 1 at the first maximum along the axis, 0 elsewhere.
Results lowerHardmax(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const auto dims, softmaxDims(n));
  // Up to version 11 these dimensions are flattened into one, and restored at the end.
  Shape flat(x.shape.begin(), x.shape.end());
  const int64_t axis = dims.empty() ? x.rank() : dims[0];
  if (dims.size() != 1) {
    flat.resize(axis);
    flat.push_back(1);
    for (int64_t dim : dims) flat.back() *= x.shape[dim];
  }
  Tensor merged = e.reshape(x, flat);
  Tensor position = argMax(e, merged, axis, /*maximum=*/true, /*last=*/false);
  flat[axis] = 1;
  Tensor index = e.reshape(position, flat);
  Tensor result = e.elementwise(x.dtype, {merged, index}, [axis](const Scalars& s, ValueRange v) {
    Value at = mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(),
                                                mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(axis)));
    return s.select(s.as(v1::DATA_TYPE_I64).compare(Relation::kEqual, at, v[1]), s.constant(1), s.constant(0));
  });
  return {{e.reshape(result, x.shape)}};
}

}  // namespace

Moments moments(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims) {
  Moments m;
  m.mean = reduceBounded(e, x, dims, Reduction::kMean);
  m.centered = e.elementwise(x.dtype, {x, m.mean}, [](const Scalars& s, ValueRange v) { return s.sub(v[0], v[1]); });
  m.centered.extents = x.extents;
  // The mean square of centered values is more exact than the difference of two large means.
  m.variance = reduceBounded(e, m.centered, dims, Reduction::kMeanSquare);
  return m;
}

Tensor inverseDeviation(Emitter& e, const Tensor& variance, double epsilon) {
  return e.elementwise(variance.dtype, {variance}, [epsilon](const Scalars& s, ValueRange v) {
    return s.div(s.constant(1), s.math<mlir::math::SqrtOp>(s.add(v[0], s.constant(epsilon))));
  });
}

namespace {

/// Returns centered * inverse * scale + bias, all broadcast; the bias may be absent.
Tensor scaled(Emitter& e, const Tensor& centered, const Tensor& inverse, const Tensor& scale, const Tensor* bias) {
  std::vector<Tensor> operands = {centered, inverse, scale};
  if (bias) operands.push_back(*bias);
  return e.elementwise(centered.dtype, operands, [](const Scalars& s, ValueRange v) {
    Value normal = s.mul(s.mul(v[0], v[1]), v[2]);
    return v.size() == 4 ? s.add(normal, v[3]) : normal;
  });
}

Results lowerLayerNormalization(Node& n, Emitter& e) {
  const Tensor& input = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, input.rank()));
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-5));
  TESSERA_ASSIGN_OR_RETURN(const int64_t number, n.integer("stash_type", 1));
  v1::DataType stash = input.dtype;  // 0 means no stash type
  if (number != 0) {
    TESSERA_ASSIGN_OR_RETURN(stash, n.dataType("stash_type", v1::DATA_TYPE_F32));
  }
  for (int i : {1, 2}) {
    if (!n.has(i)) continue;
    auto shape = broadcastShape(input.shape, n.in(i).shape);
    if (n.in(i).dtype != n.in(1).dtype || !isFloat(n.in(i).dtype)) {
      return n.invalid(absl::StrCat("scale or bias is ", typeName(n.in(i).dtype)),
                       {.attribute = i == 1 ? "Scale" : "B",
                        .found = std::string(typeName(n.in(i).dtype)),
                        .accepted = "floating point, both of one type"});
    }
    if (!shape || *shape != input.shape) {
      return n.invalid(
          "scale or bias does not fit",
          {.attribute = i == 1 ? "Scale" : "B", .found = shapeText(n.in(i).shape), .accepted = shapeText(input.shape)});
    }
  }
  // Statistics use the stash type if it is wider than the input's, and at least f32.
  const bool widen = elementBytes(stash) > elementBytes(input.dtype);
  const Tensor x = inWidest(e, widen ? e.cast(input, stash) : input);
  std::vector<int64_t> dims(input.rank() - axis);
  std::iota(dims.begin(), dims.end(), axis);
  Moments m = moments(e, x, dims);
  Tensor inverse = inverseDeviation(e, m.variance, epsilon);
  Tensor bias = n.has(2) ? e.cast(n.in(2), x.dtype) : Tensor{};
  Tensor result = scaled(e, m.centered, inverse, e.cast(n.in(1), x.dtype), n.has(2) ? &bias : nullptr);
  // ONNX Runtime's older operator of this name returns the scale's type.
  std::vector<Tensor> results = {e.cast(result, n.in(1).dtype)};
  if (n.wants(1) || n.wants(2)) {
    const v1::DataType kept = widen ? stash : input.dtype;
    results.push_back(e.cast(m.mean, kept));
    results.push_back(e.cast(inverse, kept));
  }
  return results;
}

Results lowerInstanceNormalization(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  TESSERA_ASSIGN_OR_RETURN(const double epsilon, n.real("epsilon", 1e-5));
  for (int i : {1, 2}) {
    if (n.in(i).shape != Shape{x.shape[1]}) {
      return n.invalid("scale or bias does not fit", {.attribute = i == 1 ? "scale" : "B",
                                                      .found = shapeText(n.in(i).shape),
                                                      .accepted = shapeText(Shape{x.shape[1]})});
    }
  }
  std::vector<int64_t> dims(x.rank() - 2);
  std::iota(dims.begin(), dims.end(), 2);
  Moments m = moments(e, x, dims);
  Shape aligned(x.rank() - 1, 1);
  // Channels are dimension 1, so the shapes of scale and bias get a trailing 1 for each spatial dimension.
  aligned[0] = x.shape[1];
  Tensor bias = e.reshape(n.in(2), aligned);
  return {{scaled(e, m.centered, inverseDeviation(e, m.variance, epsilon), e.reshape(n.in(1), aligned), &bias)}};
}

Results lowerMeanVarianceNormalization(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(auto axes, n.integers("axes", std::vector<int64_t>{0, 2, 3}));
  TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, n.in(0).rank(), "axes"));
  Moments m = moments(e, n.in(0), axes);
  return {{e.elementwise(m.centered.dtype, {m.centered, m.variance}, [](const Scalars& s, ValueRange v) {
    return s.div(v[0], s.add(s.math<mlir::math::SqrtOp>(v[1]), s.constant(1e-9)));
  })}};
}

/// Before version 9: axes by name, and no epsilon, or no variance.
Results lowerOldMeanVarianceNormalization(Node& n, Emitter& e) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  TESSERA_ASSIGN_OR_RETURN(const bool across, n.flag("across_channels", false));
  TESSERA_ASSIGN_OR_RETURN(const bool normalizes, n.flag("normalize_variance", true));
  std::vector<int64_t> axes = {0};
  for (int64_t d = across ? 1 : 2; d < n.in(0).rank(); ++d) axes.push_back(d);
  Moments m = moments(e, n.in(0), axes);
  if (!normalizes) return {{std::move(m.centered)}};
  return {{e.elementwise(m.centered.dtype, {m.centered, m.variance}, [](const Scalars& s, ValueRange v) {
    return s.div(v[0], s.math<mlir::math::SqrtOp>(v[1]));
  })}};
}

/// y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels) ^ beta
Results lowerLrn(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  TESSERA_ASSIGN_OR_RETURN(const int64_t size, n.integer("size"));
  TESSERA_ASSIGN_OR_RETURN(const double alpha, n.real("alpha", 1e-4));
  TESSERA_ASSIGN_OR_RETURN(const double beta, n.real("beta", 0.75));
  TESSERA_ASSIGN_OR_RETURN(const double bias, n.real("bias", 1.0));
  if (size < 1 || size > (1 << 20)) {
    return n.invalid("bad window", {.attribute = "size", .found = absl::StrCat(size), .accepted = "1 to 2^20"});
  }
  // The window over channels is centered; with an even size one more channel is after it.
  Shape padded = x.shape;
  padded[1] += size - 1;
  TESSERA_RETURN_IF_ERROR(n.checkResult(padded, x.dtype));
  std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  Tensor squares = e.elementwise(x.dtype, {x}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[0]); });
  squares = e.pad(squares, low, high, e.scalars(x.dtype).constant(0));
  const auto rank = static_cast<unsigned>(x.rank());
  mlir::MLIRContext* context = e.b.getContext();
  llvm::SmallVector<AffineExpr> in, out;
  for (unsigned d = 0; d < rank; ++d) out.push_back(mlir::getAffineDimExpr(d, context));
  in = out;
  in[1] = in[1] + mlir::getAffineDimExpr(rank, context);
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  loops.push_back(IteratorType::reduction);
  // The window's length comes from an operand without contents.
  Tensor extent = Emitter::wrap(e.empty(x.dtype, {size}), x.dtype);
  Tensor zero = e.zeros(x.dtype, x.shape);
  Tensor sum = e.generic(x.dtype, x.shape,
                         {{squares, AffineMap::get(rank + 1, 0, in, context)},
                          {extent, AffineMap::get(rank + 1, 0, {mlir::getAffineDimExpr(rank, context)}, context)}},
                         AffineMap::get(rank + 1, 0, out, context), loops, &zero,
                         [](const Scalars& s, ValueRange v) { return s.add(v[0], v[2]); });
  return {{e.elementwise(x.dtype, {x, sum}, [&](const Scalars& s, ValueRange v) {
    Value base = s.fma(v[1], s.constant(alpha / static_cast<double>(size)), s.constant(bias));
    return s.div(v[0], s.math<mlir::math::PowFOp>(base, s.constant(beta)));
  })}};
}

Results lowerLpNormalization(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const int64_t p, n.integer("p", 2));
  if (p != 1 && p != 2) return n.invalid("bad norm", {.attribute = "p", .found = absl::StrCat(p), .accepted = "1, 2"});
  Tensor norm = reduceKeepingDims(e, x, {axis}, p == 1 ? Reduction::kL1 : Reduction::kL2);
  // Zero vectors have no direction and stay zero.
  return {{e.elementwise(x.dtype, {x, norm}, [](const Scalars& s, ValueRange v) {
    return s.select(s.compare(Relation::kEqual, v[1], s.constant(0)), s.constant(0), s.div(v[0], v[1]));
  })}};
}

/// Elements beyond the extent of the normalized dimensions are masked.
absl::Status softmaxExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

/// Before version 13 all dimensions from the axis on are reduced together, since then only the axis.
absl::Status hardmaxExtents(Node& n, Emitter& e, std::vector<Tensor>& results) {
  if (n.opset() >= 13) return alongAxisExtents(n, e, results);
  TESSERA_ASSIGN_OR_RETURN(int64_t axis, n.integer("axis", 1));
  axis = axis < 0 ? axis + n.in(0).rank() : axis;
  for (const auto& [dim, extent] : n.in(0).extents) {
    if (dim >= axis) return refuseExtent(n, 0, dim, "elements along it are combined");
  }
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

/// Spatial dimensions may be bounded, channels may not.
absl::Status instanceExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit the channels"));
  if (n.in(0).extents.contains(1)) return refuseExtent(n, 0, 1, "it numbers channels");
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

/// In training mode statistics would be taken over the batch; otherwise they are given.
absl::Status batchNormalizationExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  TESSERA_ASSIGN_OR_RETURN(const bool training, n.flag("training_mode", false));
  if (training) return refuseExtents(n, "statistics are taken over it");
  for (int i = 1; i < n.numInputs(); ++i) TESSERA_RETURN_IF_ERROR(refuseExtents(n, i, "it has to fit the channels"));
  if (n.in(0).extents.contains(1)) return refuseExtent(n, 0, 1, "it numbers channels");
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

/// Only channels are summed.
absl::Status lrnExtents(Node& n, Emitter& /*e*/, std::vector<Tensor>& results) {
  if (n.in(0).extents.contains(1)) return refuseExtent(n, 0, 1, "windows of channels reach its end");
  results[0].extents = n.in(0).extents;
  return absl::OkStatus();
}

}  // namespace

Tensor logSoftmax(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims) {
  SoftmaxParts parts = softmaxParts(e, x, dims);
  return e.elementwise(x.dtype, {parts.shifted, parts.sum},
                       [](const Scalars& s, ValueRange v) { return s.sub(v[0], s.math<mlir::math::LogOp>(v[1])); });
}

std::vector<Operator> normalizationOperators() {
  return {
      {"BatchNormalization", 1, 5, 5, lowerBatchNormalization, kFloats, 1, INT_MAX, "", batchNormalizationExtents},
      {"InstanceNormalization", 1, 3, 3, lowerInstanceNormalization, kFloats, 3, INT_MAX, "", instanceExtents},
      {"LayerNormalization", 1, 2, 3, lowerLayerNormalization, kFloats, 1, 16, "", beforeAxisExtents},
      {"LayerNormalization", 17, 2, 3, lowerLayerNormalization, kFloats, 3, INT_MAX, "", beforeAxisExtents},
      {"MeanVarianceNormalization", 1, 1, 1, lowerOldMeanVarianceNormalization, kFloats, 1, 8},
      {"MeanVarianceNormalization", 9, 1, 1, lowerMeanVarianceNormalization, kFloats},
      {"LRN", 1, 1, 1, lowerLrn, kFloats, 1, INT_MAX, "", lrnExtents},
      {"LpNormalization", 1, 1, 1, lowerLpNormalization, kFloats, 1, INT_MAX, "", alongAxisExtents},
      {"Softmax", 1, 1, 1, lowerSoftmax, kFloats, 1, INT_MAX, "", softmaxExtents},
      {"LogSoftmax", 1, 1, 1, lowerLogSoftmax, kFloats, 1, INT_MAX, "", softmaxExtents},
      {"Hardmax", 1, 1, 1, lowerHardmax, kFloats, 1, INT_MAX, "", hardmaxExtents},
  };
}

}  // namespace tessera::compiler
