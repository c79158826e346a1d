// Slicing, splitting and padding tensors.
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/dynamic_shape.h"
#include "compiler/import/ops/dynamic_slice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace arith = mlir::arith;

Value indexConstant(const Scalars& s, int64_t value) { return arith::ConstantIndexOp::create(s.b, s.loc, value); }

/// Returns the extent of a dimension sliced up to an end that varies with a range.
mlir::Value endedExtent(const Node& n, Emitter& e, int64_t dim, int64_t start, const Tensor& end) {
  const Tensor extent = extentOf(n.in(0), dim);
  if (start == 0 && extent.value && n.sameExtent(extent.value, end.value)) return extent.value;
  return e
      .elementwise(v1::DATA_TYPE_I64, {extent, end},
                   [&](const Scalars& s, ValueRange v) {
                     return s.max(s.sub(s.min(v[0], v[1]), s.integer(start)), s.integer(0));
                   })
      .value;
}

/// Slices a bounded dimension by constant bounds. Negative bounds count from the extent.
absl::Status sliceBounded(const Node& n, Emitter& e, int64_t dim, int64_t start, int64_t end, int64_t step,
                          SliceRange& range) {
  // Its first element would be the last one of the run.
  if (step < 1) return refuseExtent(n, 0, dim, "a backward slice of it has no fixed start");
  const int64_t most = n.in(0).shape[dim];
  const Tensor extent = extentOf(n.in(0), dim);
  // Clamped to the bound: numbers like INT64_MAX mean the end.
  start = std::clamp(start, -most, most);
  end = std::clamp(end, -most, most);
  if (start == 0 && end == most && step == 1) {
    range.extents[dim] = extent.value;
    return absl::OkStatus();
  }
  const auto first = [=](const Scalars& s, Value count) {
    return start < 0 ? s.max(s.add(count, s.integer(start)), s.integer(0)) : s.integer(start);
  };
  // Each value depends on the run-time size, so it is computed in a run.
  const auto counted = [&](llvm::function_ref<Value(const Scalars&, Value)> value) {
    return e.elementwise(v1::DATA_TYPE_I64, {extent}, [&](const Scalars& s, ValueRange v) { return value(s, v[0]); })
        .value;
  };
  range.extents[dim] = counted([&](const Scalars& s, Value count) {
    Value stop = end < 0 ? s.add(count, s.integer(end)) : s.min(count, s.integer(end));
    Value left = s.max(s.sub(stop, first(s, count)), s.integer(0));
    return step == 1 ? left : s.div(s.add(left, s.integer(step - 1)), s.integer(step));
  });
  // A negative start counts from the run-time end and is a position known only there.
  if (start < 0) {
    range.starts[dim] = counted(first);
    range.offsets[dim] = 0;
    const int64_t longest = end < 0 ? end - start : std::min(-start, end);
    range.sizes[dim] = std::max<int64_t>((longest + step - 1) / step, 0);
  }
  // The length may be constant, such as for the last element; later operators may then use it.
  const std::optional<int64_t> always = n.always(range.extents[dim]);
  if (always && *always >= 1 && *always <= range.sizes[dim]) {
    range.sizes[dim] = *always;
    range.extents.erase(dim);
  }
  return absl::OkStatus();
}

/// Negative bounds count from the end, and bounds are clamped to the dimension; an end before the first element exists
/// for negative steps only. Unlike in NumPy, a backward slice that starts before the first element starts at the first
/// element.
absl::StatusOr<SliceRange> readRange(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  std::vector<int64_t> starts, ends, axes, steps;
  std::vector<bool> follows;  // ends that vary with a range
  // Until version 9 the ranges are attributes, since then inputs, which other nodes may compute.
  if (n.opset() < 10 && n.opType() == "Slice") {
    TESSERA_ASSIGN_OR_RETURN(starts, n.integers("starts"));
    TESSERA_ASSIGN_OR_RETURN(ends, n.integers("ends"));
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
    TESSERA_ASSIGN_OR_RETURN(axes, n.integers("axes", axes));
  } else {
    if (n.numInputs() < 3) return n.invalid("starts and ends are missing", {.attribute = "starts"});
    auto known_starts = n.constantIntegers(1, "starts");
    auto sizes = n.sizes(2, "ends");
    // If starts or ends depend on data, the whole range is read differently.
    if (!known_starts.ok() || !sizes.ok())
      return readDynamicRange(n, e, known_starts.ok() ? sizes.status() : known_starts.status());
    starts = *std::move(known_starts);
    ends = sizes->most;
    follows = sizes->follows;
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (n.has(3)) {
      TESSERA_ASSIGN_OR_RETURN(axes, n.constantIntegers(3, "axes"));
    }
    if (n.has(4)) {
      TESSERA_ASSIGN_OR_RETURN(steps, n.constantIntegers(4, "steps"));
    }
  }
  if (!n.has(4)) steps.assign(starts.size(), 1);
  TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, x.rank(), "axes"));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return n.invalid("starts, ends, axes and steps differ in length",
                     {.attribute = "starts",
                      .found = absl::StrCat(starts.size(), ", ", ends.size(), ", ", axes.size(), ", ", steps.size()),
                      .accepted = "equal lengths"});
  }
  SliceRange range{std::vector<int64_t>(x.rank(), 0), x.shape, std::vector<int64_t>(x.rank(), 1), x.extents, {}};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t dim = x.shape[axes[i]];
    const int64_t step = std::clamp<int64_t>(steps[i], -INT32_MAX, INT32_MAX);
    if (step == 0) return n.invalid("a step is 0", {.attribute = "steps", .found = "0", .accepted = "other than 0"});
    auto bound = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp<int64_t>(at < 0 ? at + dim : at, low, std::max(low, high));
    };
    // The last possible bound: one past the last element forwards, the last element backwards.
    const int64_t last = step > 0 ? dim : dim - 1;
    const int64_t start = bound(starts[i], 0, last);
    const int64_t end = bound(ends[i], step > 0 ? 0 : -1, last);
    // Rounds up, so that a last shorter step counts.
    const int64_t size = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    range.offsets[axes[i]] = start;
    range.sizes[axes[i]] = dim == 0 ? 0 : std::max<int64_t>(size, 0);
    range.strides[axes[i]] = step;
    // An end that varies with a range: simple slices from a fixed start keep their elements' positions.
    if (i < follows.size() && follows[i]) {
      if (step >= 1 && (step != 1 || starts[i] < 0 || ends[i] < 0)) {
        sliceDynamic(n, e, axes[i], static_cast<int64_t>(i), step, range);
        continue;
      }
      if (step < 1) {
        return n.unsupported("a slice backwards whose end is known only at run time",
                             {.attribute = "steps", .found = absl::StrCat(step), .accepted = "steps of 1 or more"});
      }
      range.extents[axes[i]] = endedExtent(n, e, axes[i], start, n.sizeAt(e, 2, static_cast<int64_t>(i)));
    } else if (x.extents.contains(axes[i])) {
      TESSERA_RETURN_IF_ERROR(sliceBounded(n, e, axes[i], starts[i], ends[i], step, range));
    }
  }
  return range;
}

Results lowerSlice(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(SliceRange range, readRange(n, e));
  bool backwards = false, empty = false;
  for (size_t d = 0; d < range.sizes.size(); ++d) {
    // With one element the step does not matter, and 1 allows a plain slice.
    if (range.sizes[d] <= 1) range.strides[d] = 1;
    empty |= range.sizes[d] == 0;
    backwards |= range.strides[d] < 0;
  }
  if (empty) return {{Emitter::wrap(makeConstant(x.dtype, range.sizes, ""))}};
  if (!backwards && range.starts.empty()) {
    Tensor result = e.slice(x, range.offsets, range.sizes, range.strides);
    result.extents = std::move(range.extents);
    return {{std::move(result)}};
  }
  // Backward steps and run-time starts are no slices of memory: each element is looked up.
  Value source = e.value(x);
  Tensor result = e.generate(x.dtype, range.sizes, [&](const Scalars& s, ValueRange at) {
    llvm::SmallVector<Value> from;
    for (size_t d = 0; d < range.sizes.size(); ++d) {
      Value scaled = arith::MulIOp::create(s.b, s.loc, at[d], indexConstant(s, range.strides[d]));
      const auto start = range.starts.find(static_cast<int64_t>(d));
      if (start == range.starts.end()) {
        from.push_back(arith::AddIOp::create(s.b, s.loc, scaled, indexConstant(s, range.offsets[d])));
        continue;
      }
      Value offset = arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(),
                                                e.extract(s.as(v1::DATA_TYPE_I64), start->second, {}));
      // Clamped, because beyond the result's extent it would leave the buffer.
      Value place = arith::AddIOp::create(s.b, s.loc, scaled, offset);
      from.push_back(arith::MinSIOp::create(s.b, s.loc, place, indexConstant(s, x.shape[d] - 1)));
    }
    return e.extract(s, source, from);
  });
  result.extents = std::move(range.extents);
  return {{std::move(result)}};
}

/// Removes a border of (left, top, right, bottom), or keeps `scale` rows and columns after left and top.
Results lowerCrop(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 4, 4));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<int64_t> border, n.integers("border"));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<int64_t> scale, n.integers("scale", std::vector<int64_t>()));
  const auto fault = [&](const std::string& attribute, const std::vector<int64_t>& found) {
    return n.invalid(absl::StrCat("the ", attribute, " does not fit an image of ", x.shape[2], "x", x.shape[3]),
                     {.attribute = attribute,
                      .found = absl::StrJoin(found, ", "),
                      .accepted = attribute == "border" ? "left, top, right, bottom" : "rows, columns"});
  };
  const bool negative = std::any_of(border.begin(), border.end(), [](int64_t size) { return size < 0; });
  if (border.size() != 4 || negative || border[1] > x.shape[2] || border[0] > x.shape[3])
    return fault("border", border);
  if (!scale.empty() && scale.size() != 2) return fault("scale", scale);
  Shape shape = {x.shape[0], x.shape[1], x.shape[2] - border[1] - std::min(border[3], x.shape[2]),
                 x.shape[3] - border[0] - std::min(border[2], x.shape[3])};
  if (!scale.empty()) std::copy(scale.begin(), scale.end(), shape.begin() + 2);
  if (shape[2] < 1 || shape[3] < 1 || shape[2] > x.shape[2] - border[1] || shape[3] > x.shape[3] - border[0])
    return scale.empty() ? fault("border", border) : fault("scale", scale);
  return {{e.slice(x, {0, 0, border[1], border[0]}, shape, {1, 1, 1, 1})}};
}

Results lowerSplit(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", 0, x.rank()));
  if (x.extents.contains(axis)) return refuseExtent(n, 0, axis, "its parts would have no fixed position");
  const int64_t dim = x.shape[axis];
  int64_t parts = n.numOutputs();
  std::optional<std::vector<int64_t>> sizes;
  if (n.opset() >= 13) {
    if (n.has(1)) {
      TESSERA_ASSIGN_OR_RETURN(sizes, n.constantIntegers(1, "split"));
    }
  } else if (n.hasAttribute("split")) {
    TESSERA_ASSIGN_OR_RETURN(sizes, n.integers("split"));
  }
  if (n.opset() >= 18 && n.hasAttribute("num_outputs")) {
    TESSERA_ASSIGN_OR_RETURN(parts, n.integer("num_outputs"));
  }
  if (!sizes) {
    // Since version 18 the last part may be smaller.
    if (parts < 1 || (n.opset() < 18 && dim % parts != 0) || parts > std::max<int64_t>(dim, n.numOutputs())) {
      return n.invalid(
          absl::StrCat("dimension ", dim, " does not split in ", parts, " equal parts"),
          {.attribute = "split", .found = absl::StrCat(dim), .accepted = absl::StrCat("multiples of ", parts)});
    }
    const int64_t each = (dim + parts - 1) / parts;
    sizes.emplace();
    for (int64_t i = 0; i < parts; ++i) sizes->push_back(std::clamp<int64_t>(dim - i * each, 0, each));
  }
  // 128 bits, as sizes of a file may overflow when added.
  __int128 sum = 0;
  bool valid = static_cast<int64_t>(sizes->size()) == n.numOutputs();
  for (int64_t size : *sizes) {
    sum += size;
    valid &= size >= 0;
  }
  if (!valid || sum != dim) {
    return n.invalid("the parts do not make up the dimension",
                     {.attribute = "split",
                      .found = shapeText(*sizes),
                      .accepted = absl::StrCat(n.numOutputs(), " sizes that add up to ", dim)});
  }
  std::vector<Tensor> results;
  std::vector<int64_t> offsets(x.rank(), 0), strides(x.rank(), 1);
  Shape shape = x.shape;
  for (int64_t size : *sizes) {
    shape[axis] = size;
    if (elementCount(shape) == 0) {
      results.push_back(Emitter::wrap(makeConstant(x.dtype, shape, "")));
    } else {
      results.push_back(e.slice(x, offsets, shape, strides));
    }
    offsets[axis] += size;
  }
  // Parts keep extents of other dimensions; constants have none.
  for (Tensor& result : results) {
    if (result.value) result.extents = x.extents;
  }
  return results;
}

/// Returns the source coordinate of an output coordinate outside [0, dim), already shifted by the padding; `dim` is of
/// index type. Reflection and wrapping repeat as often as the padding needs, as in numpy.pad. `near`: the padding is
/// shorter than the dimension, so one reflection without division suffices.
Value reflectedCoordinate(const Scalars& s, Value at, Value dim, const std::string& mode, bool near) {
  const Scalars index = s.as(v1::DATA_TYPE_I64);  // arithmetic on index values is signed as well
  auto minimum = [&](Value x, Value y) { return arith::MinSIOp::create(s.b, s.loc, x, y).getResult(); };
  auto maximum = [&](Value x, Value y) { return arith::MaxSIOp::create(s.b, s.loc, x, y).getResult(); };
  auto modulo = [&](Value x, Value period) {
    Value rest = arith::RemSIOp::create(s.b, s.loc, x, period);
    Value negative = arith::CmpIOp::create(s.b, s.loc, arith::CmpIPredicate::slt, rest, indexConstant(s, 0));
    return index.select(negative, arith::AddIOp::create(s.b, s.loc, rest, period), rest);
  };
  Value zero = indexConstant(s, 0);
  Value last = maximum(arith::SubIOp::create(s.b, s.loc, dim, indexConstant(s, 1)), zero);
  if (mode == "reflect") {
    // A reflection repeats after twice the last position.
    Value twice = arith::AddIOp::create(s.b, s.loc, last, last);
    if (!near) at = modulo(at, maximum(twice, indexConstant(s, 1)));
    // The distance from 0, then the distance from the other border.
    Value mirrored = maximum(at, arith::SubIOp::create(s.b, s.loc, zero, at));
    Value beyond = arith::SubIOp::create(s.b, s.loc, twice, mirrored);
    at = minimum(mirrored, beyond);
  } else if (mode == "wrap") {
    at = modulo(at, maximum(dim, indexConstant(s, 1)));
  }
  return minimum(maximum(at, zero), last);
}

/// The padding value: known at import, or one element computed at run time.
struct PaddingValue {
  Value known = {};
  Tensor computed = {};  ///< rank 0

  Value in(Emitter& e, const Scalars& s) const { return known ? known : e.extract(s, computed.value, {}); }
};

/// Returns the padding value of Pad since version 11.
absl::StatusOr<PaddingValue> paddingValue(Node& n, Emitter& e) {
  const v1::DataType type = n.in(0).dtype;
  if (!n.has(2)) return PaddingValue{.known = e.scalars(type).constant(0)};
  if (n.in(2).elements() != 1 || n.in(2).dtype != type) {
    return n.invalid("the padding value does not fit",
                     {.attribute = "constant_value", .found = typeName(n.in(2).dtype), .accepted = typeName(type)});
  }
  if (!n.in(2).constant) return PaddingValue{.computed = e.reshape(n.in(2), {})};
  return PaddingValue{.known = isFloat(type) ? e.scalars(type).constant(n.in(2).constant->realAt(0))
                                             : e.scalars(type).integer(n.in(2).constant->integerAt(0))};
}

/// Pads x with `low` and `high` elements of the padding value before and after each dimension.
Tensor padded(Emitter& e, const Tensor& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
              const PaddingValue& with) {
  if (with.known) return e.pad(x, low, high, with.known);
  // Graph rewrites support padding by a constant only, so the computed value replaces it afterwards.
  const Tensor wide = e.pad(x, low, high, e.scalars(x.dtype).constant(0));
  return e.elementwise(x.dtype, {wide, with.computed}, [&](const Scalars& s, ValueRange v) {
    Value inside;
    const auto require = [&](arith::CmpIPredicate relation, Value at, int64_t bound) {
      const Value holds = arith::CmpIOp::create(s.b, s.loc, relation, at, indexConstant(s, bound));
      inside = inside ? s.logicalAnd(inside, holds) : holds;
    };
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (low[d] == 0 && high[d] == 0) continue;
      Value at = mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(d));
      if (low[d] > 0) require(arith::CmpIPredicate::sge, at, low[d]);
      if (high[d] > 0) require(arith::CmpIPredicate::slt, at, low[d] + x.shape[d]);
    }
    return inside ? s.select(inside, v[0], v[1]) : v[0];
  });
}

/// Pads x with its own elements before and after each dimension; negative amounts crop first.
Tensor repeatedEdges(Emitter& e, const Tensor& x, const Shape& shape, const std::vector<int64_t>& low,
                     const std::vector<int64_t>& high, const std::string& mode) {
  const auto cut = [](int64_t amount) { return std::min<int64_t>(amount, 0); };
  // Returns the coordinate in x of element `at` of the result; `dim` is the number of elements of x.
  const auto place = [&](const Scalars& s, size_t d, Value at, Value dim, bool near) -> Value {
    Value shifted = arith::SubIOp::create(s.b, s.loc, at, indexConstant(s, std::max<int64_t>(low[d], 0)));
    if (cut(low[d]) + cut(high[d]) < 0)
      dim = arith::AddIOp::create(s.b, s.loc, dim, indexConstant(s, cut(low[d]) + cut(high[d])));
    Value from = reflectedCoordinate(s, shifted, dim, mode, near);
    return low[d] < 0 ? arith::SubIOp::create(s.b, s.loc, from, indexConstant(s, low[d])).getResult() : from;
  };
  // If a run decides the length, coordinates come from a table: one division per coordinate, not per element.
  std::map<size_t, Value> tables;
  for (const auto& [dim, extent] : x.extents) {
    const auto d = static_cast<size_t>(dim);
    tables[d] =
        e.value(e.generate(v1::DATA_TYPE_I64, {shape[d]}, [&, extent = extent](const Scalars& s, ValueRange at) {
          Value length = arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), e.extract(s, extent, {}));
          return position(s, place(s, d, at[0], length, false));
        }));
  }
  Value source = e.value(x);
  return e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange at) {
    llvm::SmallVector<Value> from;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (auto table = tables.find(d); table != tables.end()) {
        const Value looked = e.extract(s.as(v1::DATA_TYPE_I64), table->second, {at[d]});
        from.push_back(clampedCoordinate(s, looked, x.shape[d]));
        continue;
      }
      const int64_t left = x.shape[d] + cut(low[d]) + cut(high[d]);
      const bool near = low[d] < left && high[d] < left;
      from.push_back(place(s, d, at[d], indexConstant(s, x.shape[d]), near));
    }
    return e.extract(s, source, from);
  });
}

Results lowerPad(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(const std::string mode, n.text("mode", "constant"));
  std::vector<int64_t> pads;
  PaddingValue with;
  if (n.opset() < 11) {
    TESSERA_ASSIGN_OR_RETURN(pads, n.integers(n.opset() < 2 ? "paddings" : "pads"));
    TESSERA_ASSIGN_OR_RETURN(const double value, n.real("value", 0.0));
    with.known = e.scalars(x.dtype).constant(value);
  } else {
    if (mode == "constant") {
      TESSERA_ASSIGN_OR_RETURN(with, paddingValue(n, e));
    }
    // Amounts that are not constant may still follow from shapes.
    auto known = n.constantIntegers(1, "pads");
    if (!known.ok() && mode == "constant" && !n.has(3) && n.has(1)) {
      TESSERA_ASSIGN_OR_RETURN(
          Tensor result, padByShapeValues(n, e, x, 1, [&](const Scalars& s) { return with.in(e, s); }, known.status()));
      return {{std::move(result)}};
    }
    TESSERA_ASSIGN_OR_RETURN(pads, std::move(known));
  }
  if (n.has(3)) {
    TESSERA_ASSIGN_OR_RETURN(auto axes, n.constantIntegers(3, "axes"));
    TESSERA_ASSIGN_OR_RETURN(axes, n.normalizeAxes(axes, x.rank(), "axes"));
    if (pads.size() != 2 * axes.size()) {
      return n.invalid("pads does not fit axes", {.attribute = "pads", .found = absl::StrCat(pads.size(), " values")});
    }
    // With axes, only these dimensions are padded.
    std::vector<int64_t> all(2 * x.rank(), 0);
    for (size_t i = 0; i < axes.size(); ++i) {
      all[axes[i]] = pads[i];
      all[x.rank() + axes[i]] = pads[axes.size() + i];
    }
    pads = std::move(all);
  }
  if (pads.size() != 2 * x.shape.size()) {
    return n.invalid("pads does not fit the input", {.attribute = "pads",
                                                     .found = absl::StrCat(pads.size(), " values"),
                                                     .accepted = absl::StrCat(2 * x.rank(), " values")});
  }
  std::vector<int64_t> low(pads.begin(), pads.begin() + x.rank()), high(pads.begin() + x.rank(), pads.end());
  Shape shape = x.shape;
  const bool constant = mode == "constant";
  if (!constant && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return n.invalid("unknown mode", {.attribute = "mode", .found = mode, .accepted = "constant, reflect, edge, wrap"});
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    // With padding on one side, more than the whole dimension may be removed on the other; the rest is padding.
    const bool only_padding = constant && !x.extents.contains(static_cast<int64_t>(d));
    const int64_t least = only_padding ? -shape[d] - INT32_MAX : -shape[d], most = INT32_MAX;
    const bool in_range = low[d] <= most && high[d] <= most && low[d] >= least && high[d] >= least;
    const bool grows = low[d] > 0 || high[d] > 0;
    // Repeated elements are those that remain after cropping.
    const int64_t left = shape[d] + std::min<int64_t>(low[d], 0) + std::min<int64_t>(high[d], 0);
    if (!in_range || shape[d] + low[d] + high[d] < 0 || (!constant && (left < 0 || (left == 0 && grows)))) {
      return n.invalid(absl::StrCat("padding of dimension ", d, " is out of range"),
                       {.attribute = "pads",
                        .found = absl::StrCat(low[d], ", ", high[d]),
                        .accepted = absl::StrCat(-shape[d], " to ", most, ", or less with as much on the other side")});
    }
    shape[d] += low[d] + high[d];
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(x.dtype, shape, ""))}};
  Shape grown = shape;
  for (size_t d = 0; d < shape.size(); ++d) grown[d] -= x.shape[d];
  // Padding adds a constant to each extent.
  const auto extended = [&](Tensor result) {
    result.extents.clear();
    for (const auto& [dim, extent] : x.extents)
      setExtent(result, dim, scaledExtent(e, extentOf(x, dim), 1, grown[static_cast<size_t>(dim)]));
    return result;
  };
  if (constant) {
    Tensor source = x;
    // The padding begins at the run-time end of a bounded dimension.
    for (const auto& [dim, extent] : x.extents)
      if (high[static_cast<size_t>(dim)] > 0)
        source = masked(e, source, dim, [&](const Scalars& s) { return with.in(e, s); });
    // Negative padding crops: slices first, then only non-negative padding remains, or nothing but padding.
    // More than the whole dimension is cropped: nothing of x remains.
    for (size_t d = 0; d < shape.size(); ++d)
      if (low[d] <= -x.shape[d] || high[d] <= -x.shape[d])
        return {{e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange) { return with.in(e, s); })}};
    std::vector<int64_t> offsets, sizes, strides(x.rank(), 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      offsets.push_back(std::max<int64_t>(-low[d], 0));
      sizes.push_back(x.shape[d] - offsets[d] - std::max<int64_t>(-high[d], 0));
      low[d] = std::max<int64_t>(low[d], 0);
      high[d] = std::max<int64_t>(high[d], 0);
    }
    if (elementCount(sizes) == 0) {
      return {{extended(e.generate(x.dtype, shape, [&](const Scalars& s, ValueRange) { return with.in(e, s); }))}};
    }
    return {{extended(padded(e, e.slice(source, offsets, sizes, strides), low, high, with))}};
  }
  return {{extended(repeatedEdges(e, x, shape, low, high, mode))}};
}

/// Keeps the upper or lower triangle of the last two dimensions.
Results lowerTrilu(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  TESSERA_ASSIGN_OR_RETURN(const bool upper, n.flag("upper", true));
  std::vector<Tensor> operands = {x};
  if (n.has(1)) {
    if (n.in(1).elements() != 1 || n.in(1).dtype != v1::DATA_TYPE_I64)
      return n.invalid("k is not one integer",
                       {.attribute = "k",
                        .found = absl::StrCat(typeName(n.in(1).dtype), " ", shapeText(n.in(1).shape)),
                        .accepted = "one i64"});
    operands.push_back(e.reshape(n.in(1), {}));
  }
  if (x.elements() == 0) return {{x}};
  return {{e.elementwise(x.dtype, operands, [&](const Scalars& s, ValueRange v) {
    Value row = mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(x.rank() - 2));
    Value column = mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(x.rank() - 1));
    Value edge = row;
    if (v.size() > 1) {
      const Scalars whole = s.as(v1::DATA_TYPE_I64);
      Value k = whole.min(whole.max(v[1], whole.integer(-INT32_MAX)), whole.integer(INT32_MAX));
      edge = arith::AddIOp::create(s.b, s.loc, row, arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), k));
    }
    Value keep =
        arith::CmpIOp::create(s.b, s.loc, upper ? arith::CmpIPredicate::sge : arith::CmpIPredicate::sle, column, edge);
    return s.select(keep, v[0], s.constant(0));
  })}};
}

}  // namespace

std::vector<Operator> sliceOperators() {
  return {
      {"Slice", 1, 1, 5, lowerSlice, kAll, 1, INT_MAX, "", extentsByLowering},
      // In no released operator set, but written by old converters.
      {"DynamicSlice", 1, 3, 4, lowerSlice, kAll, 1, INT_MAX, "", extentsByLowering},
      {"Crop", 1, 1, 1, lowerCrop, kFloats, 1, INT_MAX, "", independentRowExtents},
      {"Split", 1, 1, 2, lowerSplit, kAll, 1, INT_MAX, "", extentsByLowering},
      {"Pad", 1, 1, 4, lowerPad, kStored, 1, INT_MAX, "", extentsByLowering},
      {"Trilu", 14, 1, 2, lowerTrilu, kAll, 1, INT_MAX, "", unaryExtents},
  };
}

}  // namespace tessera::compiler
