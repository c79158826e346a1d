// Cumulative sums and products.
#include "absl/strings/str_cat.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Shifts x by `by` elements along `axis`, towards the end or (`backwards`) the start, and fills with `fill`.
Tensor shifted(Emitter& e, const Tensor& x, int64_t axis, int64_t by, bool backwards, double fill) {
  std::vector<int64_t> offsets(x.rank(), 0), sizes = x.shape, strides(x.rank(), 1), low(x.rank(), 0), high(x.rank(), 0);
  sizes[axis] -= by;
  offsets[axis] = backwards ? by : 0;
  (backwards ? high : low)[axis] = by;
  return e.pad(e.slice(x, offsets, sizes, strides), low, high, e.scalars(x.dtype).constant(fill));
}

/// Hillis and Steele's scan: after step k each element is the sum of the last 2^k elements up to it. It takes n log n
/// additions instead of a loop's n, but every step is elementwise, hence vectorized and parallel, and rounding errors
/// grow only with log n.
template <bool kProduct>
Results lowerCumulative(Node& n, Emitter& e) {
  constexpr double kNeutral = kProduct ? 1 : 0;
  Tensor x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 1));
  TESSERA_ASSIGN_OR_RETURN(const bool exclusive, n.flag("exclusive", false));
  TESSERA_ASSIGN_OR_RETURN(const bool reverse, n.flag("reverse", false));
  TESSERA_ASSIGN_OR_RETURN(const auto axes, n.constantIntegers(1, "axis"));
  if (axes.size() != 1) {
    return n.invalid("the axis is not one integer",
                     {.attribute = "axis", .found = absl::StrCat(axes.size(), " values"), .accepted = "one"});
  }
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.normalizeAxis(axes[0], x.rank(), "axis"));
  if (x.elements() == 0) return {{Emitter::wrap(makeConstant(x.dtype, x.shape, ""))}};
  // In forward direction, padding follows all used elements and does not affect them.
  if (reverse && x.extents.contains(axis))
    x = masked(e, x, axis, [&](const Scalars& s) { return s.constant(kNeutral); });
  if (exclusive && x.shape[axis] == 1) {
    return {{e.filled(e.scalars(x.dtype).constant(kNeutral), x.dtype, x.shape)}};
  }
  if (exclusive) x = shifted(e, x, axis, 1, reverse, kNeutral);
  for (int64_t step = 1; step < x.shape[axis]; step *= 2) {
    x = e.elementwise(
        x.dtype, {x, shifted(e, x, axis, step, reverse, kNeutral)},
        [](const Scalars& s, mlir::ValueRange v) { return kProduct ? s.mul(v[0], v[1]) : s.add(v[0], v[1]); });
  }
  return {{std::move(x)}};
}

}  // namespace

std::vector<Operator> accumulationOperators() {
  return {
      {"CumSum", 11, 2, 2, lowerCumulative<false>, kNumbers, 1, INT_MAX, "", unaryExtents},
      {"CumProd", 26, 2, 2, lowerCumulative<true>, kNumbers, 1, INT_MAX, "", unaryExtents},
  };
}

}  // namespace tessera::compiler
