// Operators that place elements by an index tensor, written as reads: every element of the result selects its source,
// so no run-time index can write outside.
#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/window.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::ValueRange;
using mlir::utils::IteratorType;

absl::Status oneHotExtents(Node& n, Emitter&, std::vector<Tensor>& results) {
  TESSERA_RETURN_IF_ERROR(refuseExtents(n, 2, "it is a pair"));
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, n.in(0).rank() + 1));
  results[0].extents.clear();
  for (const auto& [dim, extent] : n.in(0).extents) results[0].extents[dim < axis ? dim : dim + 1] = extent;
  return absl::OkStatus();
}

/// result[.., k, ..] = indices[..] is class k ? on : off; an index that is no class gives off everywhere.
Results lowerOneHot(Node& n, Emitter& e) {
  const Tensor& indices = n.in(0);
  const Tensor& values = n.in(2);
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr depth, n.constantInput(1, "depth"));
  if (depth->elements() != 1 || depth->integerAt(0) < 0) {
    return n.invalid("bad depth",
                     {.attribute = "depth",
                      .found = depth->elements() == 1 ? absl::StrCat(depth->integerAt(0)) : shapeText(depth->shape),
                      .accepted = "one number of at least 0"});
  }
  if (values.shape != Shape{2}) {
    return n.invalid("values are not a pair",
                     {.attribute = "values", .found = shapeText(values.shape), .accepted = "[off, on]"});
  }
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, n.axis("axis", -1, indices.rank() + 1));
  const int64_t classes = depth->integerAt(0);
  Shape shape = indices.shape;
  shape.insert(shape.begin() + axis, classes);
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, values.dtype));
  if (elementCount(shape) == 0) return {{Emitter::wrap(makeConstant(values.dtype, shape, ""))}};
  // Indices broadcast along the new dimension.
  Shape aligned = indices.shape;
  aligned.insert(aligned.begin() + axis, 1);
  const auto rank = static_cast<unsigned>(shape.size());
  llvm::SmallVector<AffineExpr> places;
  for (unsigned d = 0; d < rank; ++d) {
    if (static_cast<int64_t>(d) != axis) places.push_back(e.b.getAffineDimExpr(d));
  }
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  Value pair = e.value(values);
  return {{e.generic(values.dtype, shape, {{indices, AffineMap::get(rank, 0, places, e.b.getContext())}},
                     e.b.getMultiDimIdentityMap(rank), loops, nullptr, [&](const Scalars& s, ValueRange v) {
                       const Scalars wide = s.as(v1::DATA_TYPE_I64), result = s.as(values.dtype);
                       Value place =
                           position(s, mlir::linalg::IndexOp::create(s.b, s.loc, static_cast<uint64_t>(axis)));
                       Value index = s.cast(v[0], v1::DATA_TYPE_I64);
                       Value negative = wide.compare(Relation::kLess, index, wide.integer(0));
                       // A negative index counts from the end.
                       index = wide.select(negative, wide.add(index, wide.integer(classes)), index);
                       Value off = e.extract(s, pair, {clampedCoordinate(s, wide.integer(0), 2)});
                       Value on = e.extract(s, pair, {clampedCoordinate(s, wide.integer(1), 2)});
                       return result.select(wide.compare(Relation::kEqual, index, place), on, off);
                     })}};
}

/// Reverses the first sequence_lens[batch] elements along time; the others stay.
Results lowerReverseSequence(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  const Tensor& lengths = n.in(1);
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 2));
  TESSERA_ASSIGN_OR_RETURN(const int64_t time, n.axis("time_axis", 0, x.rank()));
  TESSERA_ASSIGN_OR_RETURN(const int64_t batch, n.axis("batch_axis", 1, x.rank()));
  if (time == batch || time > 1 || batch > 1) {
    return n.invalid("bad axes", {.attribute = "time_axis",
                                  .found = absl::StrCat("time ", time, ", batch ", batch),
                                  .accepted = "0 and 1, or 1 and 0"});
  }
  if (lengths.shape != Shape{x.shape[batch]} || lengths.dtype != v1::DATA_TYPE_I64) {
    return n.invalid("the lengths do not fit",
                     {.attribute = "sequence_lens",
                      .found = absl::StrCat(typeName(lengths.dtype), " ", shapeText(lengths.shape)),
                      .accepted = absl::StrCat("i64 ", x.shape[batch])});
  }
  const auto batches = x.extents.find(batch), steps = x.extents.find(time), counted = lengths.extents.find(0);
  if (counted != lengths.extents.end() &&
      (batches == x.extents.end() || !n.sameExtent(batches->second, counted->second)))
    return refuseExtent(n, 1, 0, "it has to be the batch of input 0");
  if (x.elements() == 0) return {{x}};
  Value source = e.value(x);
  Value count = e.value(lengths);
  Tensor result = e.generate(x.dtype, x.shape, [&](const Scalars& s, ValueRange at) {
    const Scalars wide = s.as(v1::DATA_TYPE_I64);
    Value length = e.extract(s, count, {at[batch]});
    // A greater length reverses the whole sequence; elements beyond the run's size never come to the front.
    length = wide.min(length, steps == x.extents.end() ? wide.integer(x.shape[time]) : e.extract(s, steps->second, {}));
    Value step = position(s, at[time]);
    // Elements beyond the sequence's length stay.
    Value reversed = wide.sub(wide.sub(length, wide.integer(1)), step);
    Value from = wide.select(wide.compare(Relation::kLess, step, length), reversed, step);
    llvm::SmallVector<Value> place(at);
    place[time] = clampedCoordinate(s, from, x.shape[time]);
    return e.extract(s, source, place);
  });
  result.extents = x.extents;
  return {{std::move(result)}};
}

/// Returns the input shape of the MaxPool that MaxUnpool inverts, and the window's geometry.
absl::StatusOr<Window> readUnpooling(Node& n, Shape& pooled_from) {
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3));
  const Shape& shape = n.in(0).shape;
  const size_t rank = shape.size() - 2;
  Window window;
  if (!n.hasAttribute("kernel_shape")) return n.integers("kernel_shape").status();
  TESSERA_ASSIGN_OR_RETURN(window.kernel, spatialAttribute(n, "kernel_shape", rank, 1, 1));
  TESSERA_ASSIGN_OR_RETURN(window.strides, spatialAttribute(n, "strides", rank, 1, 1));
  TESSERA_ASSIGN_OR_RETURN(const auto pads, spatialAttribute(n, "pads", 2 * rank, 0, 0));
  pooled_from = {shape[0], shape[1]};
  for (size_t d = 0; d < rank; ++d) {
    // Each factor is below 2^31.
    // The greatest size that MaxPool could have had.
    const int64_t size = (shape[2 + d] - 1) * window.strides[d] + window.kernel[d] - pads[d] - pads[rank + d];
    if (shape[2 + d] < 1 || size < 1) {
      return n.invalid(
          "nothing is left to unpool into",
          {.attribute = "pads", .found = shapeText(shape), .accepted = "a result of at least one element"});
    }
    pooled_from.push_back(size);
    window.low.push_back(pads[d]);
  }
  return window;
}

/// Each element of the result searches the windows that cover it for one whose maximum came from it. An index outside
/// its window comes from no MaxPool and places nothing.
Tensor unpool(Emitter& e, const Tensor& x, const Tensor& indices, const Window& window, const Shape& shape) {
  const size_t s = window.rank();
  const auto rank = static_cast<unsigned>(2 + 2 * s);
  Value maxima = e.value(x), origins = e.value(indices);
  llvm::SmallVector<AffineExpr> kernel, out;
  for (unsigned d = 0; d < 2 + s; ++d) out.push_back(e.b.getAffineDimExpr(d));
  for (unsigned d = 2 + s; d < rank; ++d) kernel.push_back(e.b.getAffineDimExpr(d));
  llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  for (unsigned d = 2 + s; d < rank; ++d) loops[d] = IteratorType::reduction;
  // Without a hit an element is 0.
  Tensor zero = e.zeros(x.dtype, shape);
  Tensor extent = Emitter::wrap(e.empty(x.dtype, window.kernel), x.dtype);
  return e.generic(
      x.dtype, shape, {{extent, AffineMap::get(rank, 0, kernel, e.b.getContext())}},
      AffineMap::get(rank, 0, out, e.b.getContext()), loops, &zero, [&](const Scalars& real, ValueRange v) {
        const Scalars wide = real.as(v1::DATA_TYPE_I64);
        auto loop = [&](size_t d) -> Value { return mlir::linalg::IndexOp::create(real.b, real.loc, d); };
        llvm::SmallVector<Value> at = {loop(0), loop(1)};
        // The element's number as MaxPool writes it, with batch and channel.
        Value here = wide.add(wide.mul(position(real, at[0]), wide.integer(shape[1])), position(real, at[1]));
        Value covered = real.as(v1::DATA_TYPE_BOOL).integer(1);
        for (size_t d = 0; d < s; ++d) {
          // Window w covers element o at its position k if w * stride + k - low = o.
          Value o = position(real, loop(2 + d));
          Value stride = wide.integer(window.strides[d]);
          Value start = wide.sub(wide.add(o, wide.integer(window.low[d])), position(real, loop(2 + s + d)));
          Value w = wide.div(start, stride);
          Value exact = wide.compare(Relation::kEqual, wide.mul(w, stride), start);
          covered = real.logicalAnd(covered, real.logicalAnd(exact, isInside(real, w, x.shape[2 + d])));
          at.push_back(clampedCoordinate(real, w, x.shape[2 + d]));
          // Continues the number with the spatial positions.
          here = wide.add(wide.mul(here, wide.integer(shape[2 + d])), o);
        }
        Value hit = real.logicalAnd(covered, wide.compare(Relation::kEqual, e.extract(real, origins, at), here));
        return real.select(hit, e.extract(real, maxima, at), v.back());
      });
}

Results lowerMaxUnpool(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  const Tensor& indices = n.in(1);
  Shape shape;
  TESSERA_ASSIGN_OR_RETURN(const Window window, readUnpooling(n, shape));
  if (indices.shape != x.shape || indices.dtype != v1::DATA_TYPE_I64) {
    return n.invalid("the indices do not fit",
                     {.attribute = "I",
                      .found = absl::StrCat(typeName(indices.dtype), " ", shapeText(indices.shape)),
                      .accepted = absl::StrCat("i64 ", shapeText(x.shape))});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  Tensor result = unpool(e, x, indices, window, shape);
  if (!n.has(2)) return {{std::move(result)}};
  // Indices refer to the shape above; a larger requested shape is padded with zeros at its ends.
  TESSERA_ASSIGN_OR_RETURN(const auto wanted, n.constantIntegers(2, "output_shape"));
  bool fits = wanted.size() == shape.size();
  std::vector<int64_t> low(shape.size(), 0), high(shape.size(), 0);
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    fits = d < 2 ? wanted[d] == shape[d] : wanted[d] >= shape[d];
    if (fits) high[d] = wanted[d] - shape[d];
  }
  if (!fits) {
    return n.invalid("the output shape does not fit the window",
                     {.attribute = "output_shape",
                      .found = shapeText(wanted),
                      .accepted = absl::StrCat("at least ", shapeText(shape))});
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(wanted, x.dtype));
  return {{e.pad(result, low, high, e.scalars(x.dtype).constant(0))}};
}

}  // namespace

std::vector<Operator> selectionOperators() {
  return {
      {"OneHot", 9, 3, 3, lowerOneHot, kNumbers, 1, INT_MAX, "", oneHotExtents},
      {"ReverseSequence", 10, 2, 2, lowerReverseSequence, kAll, 1, INT_MAX, "", extentsByLowering},
      {"MaxUnpool", 9, 2, 3, lowerMaxUnpool, kFloats},
  };
}

}  // namespace tessera::compiler
