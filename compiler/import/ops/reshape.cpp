#include "compiler/import/ops/reshape.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/bounded_dimensions.h"
#include "compiler/import/ops/dynamic_shape.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Reshapes a tensor with bounded dimensions: in place if these stay separate in memory, otherwise element by element.
/// `sizes` are the extents of the result; one may be absent and is inferred. `kept`: the error why it cannot stay in
/// place.
Results reshapedByExtents(Node& n, Emitter& e, const Tensor& x, const Shape& shape, std::vector<Tensor> sizes,
                          const absl::Status& kept) {
  std::vector<Tensor> from, others;
  for (int64_t d = 0; d < x.rank(); ++d) from.push_back(extentOf(x, d));
  const Tensor whole = productOf(e, from);
  Tensor* inferred = nullptr;
  for (Tensor& size : sizes) {
    if (!size.value && !size.constant) {
      inferred = &size;
    } else {
      others.push_back(size);
    }
  }
  if (!whole.value) return kept;
  if (inferred) {
    *inferred = e.elementwise(v1::DATA_TYPE_I64, {whole, productOf(e, others)},
                              [](const Scalars& s, mlir::ValueRange v) { return s.div(v[0], v[1]); });
  }
  const Tensor all = productOf(e, sizes);
  if (!all.value) return kept;
  if (!n.sameExtent(whole.value, all.value)) {
    // If runs with other sizes are refused, the elements may stay in place: the case of windows without padding.
    if (!n.makeEqualForMultiples(whole.value, all.value, "the elements make up the new shape")) return kept;
    return n.opType() == "Flatten" ? lowerFlatten(n, e) : lowerReshape(n, e);
  }
  return {{reshapeDynamic(n, e, x, shape, sizes)}};
}

}  // namespace

Results lowerReshape(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  SizeList sizes;
  std::optional<std::vector<int64_t>> wanted;
  // The shape is an input since version 5, and an attribute before.
  if (n.opset() >= 5 && n.has(1)) {
    TESSERA_ASSIGN_OR_RETURN(sizes, n.sizes(1, "shape"));
    wanted = sizes.most;
  } else if (n.opset() < 5 && n.hasAttribute("shape")) {
    TESSERA_ASSIGN_OR_RETURN(wanted, n.integers("shape"));
  }
  if (!wanted) return n.invalid("no shape given", {.attribute = "shape", .accepted = "a list of dimensions"});
  bool allow_zero = false;
  if (n.opset() >= 14) {
    TESSERA_ASSIGN_OR_RETURN(allow_zero, n.flag("allowzero", false));
  }
  Shape shape = *wanted;
  std::optional<size_t> inferred;
  for (size_t d = 0; d < shape.size(); ++d) {
    // 0 copies a dimension of the input, unless the node says that it means 0.
    if (shape[d] == 0 && !allow_zero && d < x.shape.size()) shape[d] = x.shape[d];
    if (shape[d] != -1) continue;
    if (inferred) return n.invalid("two dimensions are -1", {.attribute = "shape", .found = shapeText(*wanted)});
    inferred = d;
    shape[d] = 1;
  }
  TESSERA_RETURN_IF_ERROR(n.checkResult(shape, x.dtype));
  // -1 takes what the other dimensions leave.
  if (inferred) {
    const int64_t rest = elementCount(shape);
    shape[*inferred] = rest == 0 ? 0 : x.elements() / rest;
  }
  if (elementCount(shape) != x.elements()) {
    return n.invalid(
        absl::StrCat("cannot reshape ", shapeText(x.shape), " to ", shapeText(*wanted)),
        {.attribute = "shape",
         .found = shapeText(*wanted),
         .accepted = absl::StrCat("shapes of ", x.elements(), " elements"),
         .remedy =
             isBounded(x) ? "end the range (--dim N=1..8) with a size that divides as the new shape requires" : ""});
  }
  std::vector<Tensor> results = {e.reshape(x, shape)};
  const auto follows = [&](size_t d) { return d < sizes.follows.size() && sizes.follows[d]; };
  // The size of each new dimension in a run: computed, copied, or constant; the -1 stays open.
  std::vector<Tensor> extents;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (follows(d)) {
      extents.push_back(n.sizeAt(e, 1, dim));
    } else if ((*wanted)[d] == 0 && !allow_zero && dim < x.rank()) {
      extents.push_back(extentOf(x, dim));
    } else {
      extents.push_back(inferred == d ? Tensor() : scalarI64(shape[d]));
    }
  }
  // The requested sizes that vary with a range must equal those found from the elements.
  for (size_t d = 0; d < shape.size(); ++d) {
    if (follows(d)) (*wanted)[d] = -1;
  }
  absl::Status kept = reshapeExtents(n, e, results, &*wanted);
  for (size_t d = 0; kept.ok() && d < shape.size(); ++d) {
    if (!follows(d)) continue;
    const auto extent = results[0].extents.find(static_cast<int64_t>(d));
    if (extent != results[0].extents.end() && n.sameExtent(extent->second, extents[d].value)) continue;
    kept = n.unsupported(absl::StrCat("dimension ", d, " of the new shape is known only at run time (at most ",
                                      sizes.most[d], "), and is not a dimension of the input"),
                         {.attribute = "shape", .found = shapeText(sizes.most), .accepted = "dimensions of the input"});
  }
  // The elements do not stay in place at every size: copies them instead.
  if (!kept.ok()) return reshapedByExtents(n, e, x, shape, std::move(extents), kept);
  return results;
}

Results lowerFlatten(Node& n, Emitter& e) {
  const Tensor& x = n.in(0);
  TESSERA_ASSIGN_OR_RETURN(int64_t axis, n.integer("axis", 1));
  if (axis != x.rank()) {
    TESSERA_ASSIGN_OR_RETURN(axis, n.normalizeAxis(axis, x.rank(), "axis"));
  }
  std::vector<Tensor> results = {e.reshape(x, {elementCount({x.shape.begin(), x.shape.begin() + axis}),
                                               elementCount({x.shape.begin() + axis, x.shape.end()})})};
  // First tries without a copy.
  const absl::Status kept = reshapeExtents(n, e, results, nullptr);
  if (kept.ok()) return results;
  std::vector<Tensor> outer, inner;
  for (int64_t d = 0; d < x.rank(); ++d) (d < axis ? outer : inner).push_back(extentOf(x, d));
  return reshapedByExtents(n, e, x, results[0].shape, {productOf(e, outer), productOf(e, inner)}, kept);
}

}  // namespace tessera::compiler
