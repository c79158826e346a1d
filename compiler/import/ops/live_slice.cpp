#include "compiler/import/ops/live_slice.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/bounded.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

/// A start or an end as a run has it: negative ones count from the end, both are clamped to the elements there are.
Tensor liveBound(Emitter& e, const Tensor& bound, const Tensor& count) {
  return e.elementwise(v1::DATA_TYPE_I64, {bound, count}, [](const Scalars& s, ValueRange v) {
    Value at = s.select(s.compare(Relation::kLess, v[0], s.integer(0)), s.add(v[0], v[1]), v[0]);
    return s.min(s.max(at, s.integer(0)), v[1]);
  });
}

/// Starts or ends, some of which only the run knows, in front of what they slice: element `at`.
Tensor boundAt(const Node& n, Emitter& e, int input, int64_t at) {
  const ConstantPtr& known = n.in(input).constant;
  return known ? scalarI64(known->integerAt(at)) : n.sizeAt(e, input, at);
}

/// Whether an input is a list of integers that a run computes, one for each of a known number of dimensions.
bool isLiveList(const Node& n, int input) {
  const Tensor& list = n.in(input);
  return isInteger(list.dtype) && !list.sequence && list.rank() == 1 && list.extents.empty();
}

}  // namespace

void sliceLive(const Node& n, Emitter& e, int64_t dim, int64_t at, int64_t step, SliceRange& range) {
  const Tensor count = extentOf(n.in(0), dim);
  const Tensor start = liveBound(e, boundAt(n, e, 1, at), count), end = liveBound(e, boundAt(n, e, 2, at), count);
  const Tensor size = e.elementwise(v1::DATA_TYPE_I64, {start, end}, [&](const Scalars& s, ValueRange v) {
    Value left = s.max(s.sub(v[1], v[0]), s.integer(0));
    return step == 1 ? left : s.div(s.add(left, s.integer(step - 1)), s.integer(step));
  });
  range.offsets[dim] = 0;
  range.strides[dim] = step;
  range.extents.erase(dim);
  if (range.sizes[dim] == 0) return;
  range.sizes[dim] = (range.sizes[dim] + step - 1) / step;
  range.starts[dim] = e.value(start);
  range.extents[dim] = e.value(size);
  // A window, wherever it lies, is as long as its range: what follows may want the number.
  if (const auto most = n.mostOf(size); most && *most >= 1) range.sizes[dim] = std::min(range.sizes[dim], *most);
  const auto bounds = n.bounds(size);
  if (bounds && bounds->first == bounds->second && bounds->first == range.sizes[dim]) range.extents.erase(dim);
}

absl::StatusOr<SliceRange> readLiveRange(Node& n, Emitter& e, const absl::Status& refused) {
  const Tensor& x = n.in(0);
  if (!isLiveList(n, 1) || !isLiveList(n, 2) || n.in(1).shape != n.in(2).shape) return refused;
  const int64_t count = n.in(1).shape[0];
  std::vector<int64_t> axes(count), steps(count, 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) {
    TESSERA_ASSIGN_OR_RETURN(axes, n.constantIntegers(3, "axes"));
  }
  if (n.has(4)) {
    TESSERA_ASSIGN_OR_RETURN(steps, n.constantIntegers(4, "steps"));
  }
  TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, x.rank(), "axes"));
  const auto lengths = {axes.size(), steps.size()};
  const bool forwards = std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step >= 1; });
  if (!std::all_of(lengths.begin(), lengths.end(), [&](size_t l) { return l == static_cast<size_t>(count); }) ||
      !forwards)
    return refused;
  SliceRange range{std::vector<int64_t>(x.rank(), 0), x.shape, std::vector<int64_t>(x.rank(), 1), x.extents, {}};
  for (int64_t i = 0; i < count; ++i) sliceLive(n, e, axes[i], i, std::min<int64_t>(steps[i], INT32_MAX), range);
  return range;
}

}  // namespace tessera::compiler
