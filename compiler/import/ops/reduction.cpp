// Reductions over some dimensions.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

namespace {

Shape withoutDims(const Shape& shape, const std::vector<int64_t>& dims, bool keep) {
  Shape result;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced) {
      result.push_back(shape[d]);
    } else if (keep) {
      result.push_back(1);
    }
  }
  return result;
}

/// Reduces over no dimension: returns the term of each element.
Tensor accumulateNothing(Emitter& e, const Tensor& x, Reduction reduction) {
  switch (reduction) {
    case Reduction::kL1:
      return e.elementwise(x.dtype, {x}, [](const Scalars& s, ValueRange v) { return s.abs(v[0]); });
    case Reduction::kL2:
    case Reduction::kSumSquare:
    case Reduction::kMeanSquare:
      return e.elementwise(x.dtype, {x}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[0]); });
    default:
      return x;
  }
}

/// Plain accumulation; reduced dimensions are removed.
Tensor accumulate(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims, Reduction reduction) {
  if (dims.empty()) return accumulateNothing(e, x, reduction);
  const Scalars s = e.scalars(x.dtype);
  switch (reduction) {
    case Reduction::kMax:
      return e.reduce(x, dims, x.dtype, s.lowest(), [](const Scalars& sc, ValueRange v) { return sc.max(v[0], v[1]); });
    case Reduction::kMin:
      return e.reduce(x, dims, x.dtype, s.highest(),
                      [](const Scalars& sc, ValueRange v) { return sc.min(v[0], v[1]); });
    case Reduction::kProd:
      return e.reduce(x, dims, x.dtype, s.constant(1),
                      [](const Scalars& sc, ValueRange v) { return sc.mul(v[0], v[1]); });
    case Reduction::kL1:
      return e.reduce(x, dims, x.dtype, s.constant(0),
                      [](const Scalars& sc, ValueRange v) { return sc.add(sc.abs(v[0]), v[1]); });
    case Reduction::kL2:
    case Reduction::kSumSquare:
    case Reduction::kMeanSquare:
      return e.reduce(x, dims, x.dtype, s.constant(0),
                      [](const Scalars& sc, ValueRange v) { return sc.fma(v[0], v[0], v[1]); });
    default:
      return e.reduce(x, dims, x.dtype, s.constant(0),
                      [](const Scalars& sc, ValueRange v) { return sc.add(v[0], v[1]); });
  }
}

/// log(sum(exp(x))) = m + log(sum(exp(x - m))), where m is the maximum, or 0 if that is infinite.
Tensor logSumExp(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims) {
  Tensor maximum = reduceKeepingDims(e, x, dims, Reduction::kMax);
  Tensor offset = e.elementwise(x.dtype, {maximum}, [](const Scalars& s, ValueRange v) {
    Value infinite = s.compare(Relation::kEqual, s.abs(v[0]), s.highest());
    return s.select(infinite, s.constant(0), v[0]);
  });
  Tensor powers = e.elementwise(x.dtype, {x, offset},
                                [](const Scalars& s, ValueRange v) { return s.math<math::ExpOp>(s.sub(v[0], v[1])); });
  Tensor sum = reduceKeepingDims(e, powers, dims, Reduction::kSum);
  return e.elementwise(x.dtype, {sum, offset},
                       [](const Scalars& s, ValueRange v) { return s.add(s.math<math::LogOp>(v[0]), v[1]); });
}

}  // namespace

Tensor reduceKeepingDims(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims, Reduction reduction) {
  if (reduction == Reduction::kLogSumExp) return dims.empty() ? x : logSumExp(e, x, dims);
  Tensor result = accumulate(e, x, dims, reduction);
  double count = 1;
  // The number of elements is known here; reduceBounded() handles the others.
  for (int64_t dim : dims) count *= static_cast<double>(x.shape[dim]);
  switch (reduction) {
    case Reduction::kMean:
    case Reduction::kMeanSquare:
      result = e.elementwise(x.dtype, {result},
                             [count](const Scalars& s, ValueRange v) { return s.div(v[0], s.constant(count)); });
      break;
    case Reduction::kL2:
      result = e.elementwise(x.dtype, {result}, [](const Scalars& s, ValueRange v) {
        // Roots of integers are taken in f64 and truncated.
        if (isFloat(s.type)) return s.math<math::SqrtOp>(v[0]);
        const Scalars wide = s.as(v1::DATA_TYPE_F64);
        return wide.cast(wide.math<math::SqrtOp>(s.cast(v[0], v1::DATA_TYPE_F64)), s.type);
      });
      break;
    case Reduction::kLogSum:
      result =
          e.elementwise(x.dtype, {result}, [](const Scalars& s, ValueRange v) { return s.math<math::LogOp>(v[0]); });
      break;
    default:
      break;
  }
  return e.reshape(result, withoutDims(x.shape, dims, true));
}

Tensor argMax(Emitter& e, const Tensor& x, int64_t axis, bool maximum, bool last) {
  // Computes the extremum, then the least (or greatest) index that has it: two vectorizable reductions.
  Tensor extreme = reduceKeepingDims(e, x, {axis}, maximum ? Reduction::kMax : Reduction::kMin);
  const v1::DataType i64 = v1::DATA_TYPE_I64;
  Tensor candidates = e.elementwise(i64, {x, extreme}, [&](const Scalars& s, ValueRange v) {
    const Scalars index = s.as(i64);
    Value at = mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(),
                                                mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(axis)));
    // NaN equals nothing; counting it as an extremum gives a valid index in any case.
    Value hit = s.compare(Relation::kEqual, v[0], v[1]);
    if (isFloat(s.type)) hit = s.logicalOr(hit, s.compare(Relation::kNotEqual, v[0], v[0]));
    return index.select(hit, at, index.integer(last ? 0 : x.shape[axis] - 1));
  });
  const Scalars s = e.scalars(i64);
  // Starts from the index that loses against every other.
  return e.reduce(candidates, {axis}, i64, last ? s.integer(0) : s.integer(std::max<int64_t>(x.shape[axis] - 1, 0)),
                  [last](const Scalars& sc, ValueRange v) { return last ? sc.max(v[0], v[1]) : sc.min(v[0], v[1]); });
}

namespace {

/// Returns the neutral element of a reduction, for elements beyond an extent.
Value neutralOf(Reduction reduction, const Scalars& s) {
  switch (reduction) {
    case Reduction::kMax:
    case Reduction::kLogSumExp:
      return s.lowest();
    case Reduction::kMin:
      return s.highest();
    case Reduction::kProd:
      return s.constant(1);
    default:
      return s.constant(0);
  }
}

}  // namespace

Tensor reduceBounded(Emitter& e, Tensor x, const std::vector<int64_t>& axes, Reduction reduction) {
  Tensor count;  // number of used elements, if known at run time
  double known = 1;
  for (int64_t axis : axes) {
    if (!x.extents.contains(axis)) {
      known *= static_cast<double>(x.shape[axis]);
      continue;
    }
    const Tensor extent = e.cast(extentOf(x, axis), x.dtype);
    count = !count.value ? extent : e.elementwise(x.dtype, {count, extent}, [](const Scalars& s, ValueRange v) {
      return s.mul(v[0], v[1]);
    });
    x = masked(e, x, axis, [reduction](const Scalars& s) { return neutralOf(reduction, s); });
  }
  // Only means divide; other reductions do not depend on the number of elements.
  const bool is_mean = reduction == Reduction::kMean || reduction == Reduction::kMeanSquare;
  if (!count.value || !is_mean) return reduceKeepingDims(e, x, axes, reduction);
  const Reduction sum = reduction == Reduction::kMean ? Reduction::kSum : Reduction::kSumSquare;
  return e.elementwise(x.dtype, {reduceKeepingDims(e, x, axes, sum), count},
                       [known](const Scalars& s, ValueRange v) { return s.div(v[0], s.mul(v[1], s.constant(known))); });
}

namespace {

/// Sets the extents of the remaining dimensions.
void keepReduced(const Node& n, const std::vector<int64_t>& axes, bool keep, Tensor& result) {
  result.extents.clear();
  for (const auto& [dim, extent] : n.in(0).extents) {
    if (std::find(axes.begin(), axes.end(), dim) != axes.end()) continue;
    // Dimensions behind a dropped one move to the front.
    int64_t before = 0;
    for (int64_t axis : axes) before += axis < dim && !keep ? 1 : 0;
    result.extents[dim - before] = extent;
  }
}

/// `kAxesInputSince`: the version that moved axes from an attribute to an input, 13 for ReduceSum and 18 for the
/// others.
template <Reduction kReduction, int kAxesInputSince>
Results lowerReduce(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const bool keep, n.flag("keepdims", true));
  std::vector<int64_t> axes;
  bool noop = false;
  if (n.opset() >= kAxesInputSince) {
    TESSERA_ASSIGN_OR_RETURN(noop, n.flag("noop_with_empty_axes", false));
    if (n.has(1)) {
      TESSERA_ASSIGN_OR_RETURN(axes, n.constantIntegers(1, "axes"));
    }
  } else {
    TESSERA_ASSIGN_OR_RETURN(axes, n.integers("axes", std::vector<int64_t>{}));
  }
  TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, x.rank(), "axes"));
  // With noop_with_empty_axes nothing is summed, but |x|, x^2 and log still apply to each element.
  if (axes.empty() && !noop) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (!isFloat(x.dtype) && (kReduction == Reduction::kLogSum || kReduction == Reduction::kLogSumExp)) {
    return n.unsupported("logarithms of integers", {.found = typeName(x.dtype), .accepted = "floating point"});
  }
  Tensor result = e.reshape(reduceBounded(e, x, axes, kReduction), withoutDims(x.shape, axes, keep));
  keepReduced(n, axes, keep, result);
  return {{std::move(result)}};
}

template <bool kMaximum>
Results lowerArg(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", 0, x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const bool keep, n.flag("keepdims", true));
  TESSERA_ASSIGN_OR_RETURN(const bool last, n.flag("select_last_index", false));
  if (x.shape[axis] == 0) return n.invalid("the axis is empty", {.attribute = "axis", .found = shapeText(x.shape)});
  TESSERA_RETURN_IF_ERROR(n.checkResult(x.shape, v1::DATA_TYPE_I64));
  Tensor there = x;
  if (x.extents.contains(axis)) {
    // A maximum never chooses a masked element, unless all elements are equal to the lowest; then the first one is
    // chosen.
    if (last) return refuseExtent(n, 0, axis, "the last of equal elements could lie beyond it");
    there = masked(e, x, axis, [](const Scalars& s) { return kMaximum ? s.lowest() : s.highest(); });
  }
  Tensor result = e.reshape(argMax(e, there, axis, kMaximum, last), withoutDims(x.shape, {axis}, keep));
  keepReduced(n, {axis}, keep, result);
  return {{std::move(result)}};
}

}  // namespace

std::vector<Operator> reductionOperators() {
  return withExtents(extentsByLowering,
                     {
                         {"ReduceSum", 1, 1, 2, lowerReduce<Reduction::kSum, 13>, kNumbers},
                         {"ReduceMean", 1, 1, 2, lowerReduce<Reduction::kMean, 18>, kNumbers},
                         {"ReduceMax", 1, 1, 2, lowerReduce<Reduction::kMax, 18>, kAll},
                         {"ReduceMin", 1, 1, 2, lowerReduce<Reduction::kMin, 18>, kAll},
                         {"ReduceProd", 1, 1, 2, lowerReduce<Reduction::kProd, 18>, kNumbers},
                         {"ReduceL1", 1, 1, 2, lowerReduce<Reduction::kL1, 18>, kNumbers},
                         {"ReduceL2", 1, 1, 2, lowerReduce<Reduction::kL2, 18>, kNumbers},
                         {"ReduceSumSquare", 1, 1, 2, lowerReduce<Reduction::kSumSquare, 18>, kNumbers},
                         {"ReduceLogSum", 1, 1, 2, lowerReduce<Reduction::kLogSum, 18>, kNumbers},
                         {"ReduceLogSumExp", 1, 1, 2, lowerReduce<Reduction::kLogSumExp, 18>, kNumbers},
                         {"ArgMax", 1, 1, 1, lowerArg<true>, kNumbers},
                         {"ArgMin", 1, 1, 1, lowerArg<false>, kNumbers},
                     });
}

}  // namespace tessera::compiler
