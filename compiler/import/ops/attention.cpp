// ONNX's Attention, since version 23.
#include "compiler/import/ops/attention.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/bounded_concat.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/matmul.h"
#include "compiler/import/ops/statistics.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

Tensor splitHeads(Emitter& e, const Tensor& x, int64_t heads) {
  Tensor split = e.transpose(e.reshape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads}), {0, 2, 1, 3});
  split.extents = permuteExtents(x, {0, -1, 1, -1});
  return split;
}

Tensor joinHeads(Emitter& e, const Tensor& x) {
  Tensor joined = e.reshape(e.transpose(x, {0, 2, 1, 3}), {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]});
  joined.extents = permuteExtents(x, {0, 2, -1});
  return joined;
}

std::map<int64_t, Value> permuteExtents(const Tensor& x, const std::vector<int64_t>& from) {
  std::map<int64_t, Value> moved;
  for (size_t d = 0; d < from.size(); ++d) {
    const auto extent = x.extents.find(from[d]);
    if (extent != x.extents.end()) moved[static_cast<int64_t>(d)] = extent->second;
  }
  return moved;
}

absl::Status refuseOtherExtents(const Node& n, const std::vector<BoundedDims>& allowed) {
  for (int i = 0; i < n.numInputs(); ++i) {
    const auto known = std::find_if(allowed.begin(), allowed.end(), [i](const BoundedDims& l) { return l.input == i; });
    for (const auto& [dim, extent] : n.in(i).extents) {
      const bool fits =
          known != allowed.end() && std::find(known->dims.begin(), known->dims.end(), dim) != known->dims.end();
      if (!fits) return refuseExtent(n, i, dim, absl::StrCat(n.opType(), " needs to know it"));
    }
  }
  return absl::OkStatus();
}

absl::Status requireSameExtent(const Node& n, const Tensor& x, int64_t of_x, const Tensor& y, int64_t of_y,
                               const char* what) {
  const auto in_x = x.extents.find(of_x), in_y = y.extents.find(of_y);
  const bool has_x = in_x != x.extents.end(), has_y = in_y != y.extents.end();
  if (has_x == has_y && (!has_x || n.sameExtent(in_x->second, in_y->second))) return absl::OkStatus();
  const auto text = [](const Tensor& tensor, int64_t dim, bool bounded) {
    return absl::StrCat(bounded ? "up to " : "", tensor.shape[dim]);
  };
  return n.unsupported(absl::StrCat(what, " may differ in a run"),
                       {.attribute = what,
                        .found = absl::StrCat(text(x, of_x, has_x), " and ", text(y, of_y, has_y)),
                        .accepted = "extents that are equal in every run",
                        .remedy = "instead of ranges (--dim N=1..8), give sizes (--dim N=1,2,4,8)"});
}

absl::Status checkHeads(Node& n, const char* what, int64_t size, int64_t heads) {
  if (heads >= 1 && size >= heads && size % heads == 0) return absl::OkStatus();
  return n.invalid(absl::StrCat(what, " ", size, " is not a multiple of ", heads, " heads"),
                   {.attribute = what, .found = absl::StrCat(size), .accepted = absl::StrCat("multiples of ", heads)});
}

namespace {

/// Masks the scores. Positions are those of keys; queries have positions as well. `queries` is the number of queries.
Tensor maskedScores(Emitter& e, const Tensor& scores, const Tensor& queries, const AttentionOptions& o) {
  std::vector<Tensor> operands = {scores};
  auto operand = [&](const std::optional<Tensor>& tensor) {
    if (tensor) operands.push_back(*tensor);
    return operands.size() - 1;
  };
  const size_t bias = operand(o.bias), keep = operand(o.keep);
  const size_t length =
      operand(o.lengths ? std::optional(e.reshape(*o.lengths, {scores.shape[0], 1, 1, 1})) : o.lengths);
  const Tensor from = o.offset.value_or(scalarI64(0));
  operands.push_back(o.offset_by_length ? queries : from);
  return e.elementwise(scores.dtype, operands, [&](const Scalars& s, ValueRange v) {
    const Scalars wide = s.as(kI64);
    auto index = [&](uint64_t dim) { return position(s, mlir::linalg::IndexOp::create(s.b, s.loc, dim)); };
    Value x = o.bias ? s.add(v[0], s.as(o.bias->dtype).cast(v[bias], s.type)) : v[0];
    Value allowed;
    auto require = [&](Value condition) { allowed = allowed ? s.logicalAnd(allowed, condition) : condition; };
    if (o.keep) require(v[keep]);
    if (o.lengths) require(wide.compare(Relation::kLess, index(3), v[length]));
    if (o.causal || o.left || o.right) {
      Value offset = o.offset_by_length ? wide.sub(v[length], v.back()) : v.back();
      Value distance = wide.sub(index(3), wide.add(index(2), offset));
      if (o.causal) require(wide.compare(Relation::kLessOrEqual, distance, wide.integer(0)));
      if (o.left) require(wide.compare(Relation::kGreaterOrEqual, distance, wide.integer(-*o.left)));
      if (o.right) require(wide.compare(Relation::kLessOrEqual, distance, wide.integer(*o.right)));
    }
    if (!allowed) return x;
    Value out = std::isinf(o.disallowed) ? s.lowest() : s.add(x, s.constant(o.disallowed));
    return s.select(allowed, x, out);
  });
}

/// Softmax along the last dimension, with `sink` as an additional element whose weight is dropped. `guarded`: a row of
/// -infinity gives a row of zeros.
Tensor softmaxRows(Emitter& e, const Tensor& x, bool guarded, const Tensor* sink) {
  const std::vector<int64_t> last = {x.rank() - 1};
  Tensor most = reduceKeepingDims(e, x, last, Reduction::kMax);
  if (sink) {
    most = e.elementwise(x.dtype, {most, *sink}, [](const Scalars& s, ValueRange v) { return s.max(v[0], v[1]); });
  }
  if (guarded) {
    most = e.elementwise(x.dtype, {most}, [](const Scalars& s, ValueRange v) {
      return s.select(s.compare(Relation::kEqual, v[0], s.lowest()), s.constant(0), v[0]);
    });
  }
  Tensor powers = e.elementwise(x.dtype, {x, most},
                                [](const Scalars& s, ValueRange v) { return s.math<math::ExpOp>(s.sub(v[0], v[1])); });
  Tensor sum = reduceKeepingDims(e, powers, last, Reduction::kSum);
  if (sink) {
    sum = e.elementwise(x.dtype, {sum, *sink, most}, [](const Scalars& s, ValueRange v) {
      return s.add(v[0], s.math<math::ExpOp>(s.sub(v[1], v[2])));
    });
  }
  if (guarded) {
    sum = e.elementwise(x.dtype, {sum}, [](const Scalars& s, ValueRange v) {
      return s.select(s.compare(Relation::kEqual, v[0], s.constant(0)), s.constant(1), v[0]);
    });
  }
  return e.elementwise(x.dtype, {powers, sum}, [](const Scalars& s, ValueRange v) { return s.div(v[0], v[1]); });
}

absl::Status checkAttention(Node& n, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k.shape[0] == q.shape[0] &&
                    k.shape[3] == q.shape[3] && v.shape[0] == k.shape[0] && v.shape[1] == k.shape[1] &&
                    // Key and value share their length; the value's head size may differ.
                    v.shape[2] == k.shape[2] && k.dtype == q.dtype && q.elements() > 0 && k.elements() > 0 &&
                    v.elements() > 0;
  if (!fits) {
    return n.invalid("the shapes of query, key and value are incompatible",
                     {.attribute = "K",
                      .found = absl::StrCat(shapeText(q.shape), ", ", shapeText(k.shape), ", ", shapeText(v.shape)),
                      .accepted = "batch x heads x length x head size, with one batch, key length and head size"});
  }
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "the number of query heads", q.shape[1], k.shape[1]));
  const Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  TESSERA_RETURN_IF_ERROR(n.checkResult(scores, q.dtype));
  for (const std::optional<Tensor>& mask : {o.bias, o.keep}) {
    if (!mask) continue;
    auto shape = broadcastShape(scores, mask->shape);
    if (shape && *shape == scores) continue;
    return n.invalid("the mask does not fit",
                     {.attribute = "attn_mask", .found = shapeText(mask->shape), .accepted = shapeText(scores)});
  }
  if (o.lengths && (o.lengths->shape != Shape{q.shape[0]} || o.lengths->dtype != kI64)) {
    return n.invalid("the lengths do not fit", {.attribute = "nonpad_kv_seqlen",
                                                .found = shapeText(o.lengths->shape),
                                                .accepted = absl::StrCat("i64 of shape ", q.shape[0])});
  }
  return absl::OkStatus();
}

/// Checks that dimensions that are combined have equal extents.
absl::Status checkExtents(const Node& n, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  TESSERA_RETURN_IF_ERROR(requireSameExtent(n, q, 0, k, 0, "batches of query and key"));
  TESSERA_RETURN_IF_ERROR(requireSameExtent(n, k, 0, v, 0, "batches of key and value"));
  TESSERA_RETURN_IF_ERROR(requireSameExtent(n, k, 2, v, 2, "lengths of key and value"));
  // Keys give the last dimension of the scores, queries all others.
  Tensor scores{.shape = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]}};
  scores.extents = permuteExtents(q, {0, -1, 2});
  if (const auto keys = k.extents.find(2); keys != k.extents.end()) scores.extents[3] = keys->second;
  for (const std::optional<Tensor>& mask : {o.bias, o.keep}) {
    if (!mask) continue;
    for (int64_t dim = 0; dim < mask->rank(); ++dim) {
      const int64_t of_scores = scores.rank() - mask->rank() + dim;
      const bool spreads = mask->shape[dim] == 1 && !mask->extents.contains(dim);
      if (!spreads) TESSERA_RETURN_IF_ERROR(requireSameExtent(n, *mask, dim, scores, of_scores, "mask and scores"));
    }
  }
  return absl::OkStatus();
}

Tensor withoutExtents(Tensor x) {
  x.extents.clear();
  return x;
}

}  // namespace

absl::StatusOr<Tensor> withPast(Node& n, Emitter& e, const Tensor& past, const Tensor& now) {
  // A run may have no past at all.
  TESSERA_RETURN_IF_ERROR(requireSameExtent(n, past, 0, now, 0, "batches of past and new keys"));
  if (past.shape[2] == 0) return now;
  Tensor whole = joined(e, {past, now}, 2);
  whole.extents.merge(permuteExtents(now, {0}));
  return whole;
}

absl::StatusOr<AttentionResult> attend(Node& n, Emitter& e, const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionOptions& o) {
  TESSERA_RETURN_IF_ERROR(checkAttention(n, query, key, value, o));
  TESSERA_RETURN_IF_ERROR(checkExtents(n, query, key, value, o));
  // Keys beyond their run-time number get the lowest score, unless the mask already says so.
  const bool counted = key.extents.contains(2) && !o.keys_counted;
  const Tensor q = withoutExtents(query), k = withoutExtents(key);
  // Elements beyond the extent may be NaN or infinite, which a weight of zero does not cancel.
  const Tensor v = withoutExtents(counted ? zeroed(e, value, 2) : value);
  const int64_t batch = q.shape[0], heads = q.shape[1], rows = q.shape[2], keys = k.shape[2], groups = k.shape[1];
  const Shape shape = {batch, heads, rows, keys};
  // Heads that share a key are rows of one product.
  const Shape grouped = {batch, groups, heads / groups * rows, q.shape[3]};
  AttentionResult result;
  // Scaling the queries is cheaper than scaling the scores, which usually have more elements.
  const Tensor scaled = o.scale == 1 ? q : e.elementwise(q.dtype, {q}, [&](const Scalars& s, ValueRange x) {
    return s.mul(x[0], s.constant(o.scale));
  });
  TESSERA_ASSIGN_OR_RETURN(Tensor scores, matmul(n, e, e.reshape(scaled, grouped), e.transpose(k, {0, 1, 3, 2})));
  result.scores = e.reshape(scores, shape);
  result.capped = result.scores;
  if (o.softcap != 0) {
    result.capped = e.elementwise(q.dtype, {result.scores}, [&](const Scalars& s, ValueRange x) {
      return s.mul(s.math<math::TanhOp>(s.div(x[0], s.constant(o.softcap))), s.constant(o.softcap));
    });
  }
  const bool windowed = o.causal || o.left || o.right;
  const bool masks = o.bias || o.keep || o.lengths || windowed;
  result.masked = masks ? maskedScores(e, result.capped, extentOf(query, 2), o) : result.capped;
  if (counted) {
    result.masked.extents[3] = key.extents.at(2);
    result.masked = masked(e, result.masked, 3, [](const Scalars& s) { return s.lowest(); });
  }
  const v1::DataType precision = o.precision == v1::DATA_TYPE_UNSPECIFIED ? q.dtype : o.precision;
  // With a causal mask alone each query sees at least its own position.
  // If all keys of a query are masked, the sum of weights is 0 and must not divide.
  const bool guarded = counted || o.change_scores || o.bias || o.keep || o.lengths || o.left || o.right;
  std::optional<Tensor> sink;
  if (o.sink) sink = e.cast(*o.sink, precision);
  Tensor allowed = withoutExtents(e.cast(result.masked, precision));
  if (o.change_scores) {
    TESSERA_ASSIGN_OR_RETURN(allowed, o.change_scores(allowed));
  }
  Tensor weights_of_keys = softmaxRows(e, allowed, guarded, sink ? &*sink : nullptr);
  if (o.change_weights) {
    TESSERA_ASSIGN_OR_RETURN(weights_of_keys, o.change_weights(weights_of_keys));
  }
  result.weights = e.cast(weights_of_keys, q.dtype);
  Shape weights = grouped;
  weights[3] = keys;
  TESSERA_ASSIGN_OR_RETURN(Tensor y, matmul(n, e, e.cast(e.reshape(result.weights, weights), v.dtype), v));
  result.y = e.cast(e.reshape(y, {batch, heads, rows, v.shape[3]}), q.dtype);
  result.y.extents = permuteExtents(query, {0, -1, 2, -1});
  // Intermediate results are outputs as well, with the extents of the scores.
  for (Tensor* step : {&result.scores, &result.capped, &result.masked, &result.weights}) {
    step->extents = result.y.extents;
    if (key.extents.contains(2)) step->extents[3] = key.extents.at(2);
  }
  return result;
}

namespace {

/// Extends a mask that is shorter than the keys: keys beyond it are masked.
Tensor maskForKeys(Emitter& e, const Tensor& mask, int64_t keys) {
  if (mask.rank() == 0 || mask.shape.back() == 1 || mask.shape.back() >= keys) return mask;
  // A mask of one element per row applies to all keys.
  std::vector<int64_t> low(mask.rank(), 0), high(mask.rank(), 0);
  high.back() = keys - mask.shape.back();
  const Scalars s = e.scalars(mask.dtype);
  return e.pad(mask, low, high, mask.dtype == v1::DATA_TYPE_BOOL ? s.integer(0) : s.lowest());
}

absl::StatusOr<Tensor> behindPast(Node& n, Emitter& e, int past, const Tensor& now) {
  if (!n.has(past)) return now;
  Shape expected = now.shape;
  if (n.in(past).rank() == 4) expected[2] = n.in(past).shape[2];
  if (n.in(past).shape != expected || n.in(past).dtype != now.dtype) {
    return n.invalid("the past state does not fit",
                     {.attribute = absl::StrCat("input ", past),
                      .found = shapeText(n.in(past).shape),
                      .accepted = absl::StrCat(shapeText(now.shape), " except along dimension 2")});
  }
  Shape whole = now.shape;
  whole[2] += expected[2];
  TESSERA_RETURN_IF_ERROR(n.checkResult(whole, now.dtype));
  return withPast(n, e, n.in(past), now);
}

absl::Status readAttentionWindow(Node& n, AttentionOptions& o) {
  if (n.opset() < 25) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const int64_t left, n.integer("left_window_size", -1));
  TESSERA_ASSIGN_OR_RETURN(const int64_t right, n.integer("right_window_size", -1));
  if (left >= 0) o.left = left;
  if (right >= 0) o.right = right;
  return absl::OkStatus();
}

Results lowerAttention(Node& n, Emitter& e) {
  AttentionOptions o;
  TESSERA_ASSIGN_OR_RETURN(o.causal, n.flag("is_causal", false));
  TESSERA_ASSIGN_OR_RETURN(o.softcap, n.real("softcap", 0.0));
  TESSERA_ASSIGN_OR_RETURN(const int64_t mode, n.integer("qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3) {
    return n.invalid("unknown output mode",
                     {.attribute = "qk_matmul_output_mode", .found = absl::StrCat(mode), .accepted = "0 to 3"});
  }
  TESSERA_ASSIGN_OR_RETURN(o.precision, n.dataType("softmax_precision", n.in(0).dtype));
  TESSERA_RETURN_IF_ERROR(readAttentionWindow(n, o));
  std::vector<Tensor> qkv;
  const bool packed = n.in(0).rank() == 3;
  const std::vector<int64_t> rows = {0, packed ? 1 : 2};  // batch and length
  TESSERA_RETURN_IF_ERROR(
      refuseOtherExtents(n, {{0, rows}, {1, rows}, {2, rows}, {3, {0, 1, 2, 3}}, {4, {0, 2}}, {5, {0, 2}}, {6, {0}}}));
  for (int i = 0; i < 3; ++i) {
    TESSERA_RETURN_IF_ERROR(n.requireRank(i, packed ? 3 : 4, packed ? 3 : 4));
    const char* name = i == 0 ? "q_num_heads" : "kv_num_heads";
    TESSERA_ASSIGN_OR_RETURN(const int64_t heads,
                             n.integer(name, packed ? std::nullopt : std::optional<int64_t>(n.in(i).shape[1])));
    if (packed) TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", n.in(i).shape[2], heads));
    qkv.push_back(packed ? splitHeads(e, n.in(i), heads) : n.in(i));
  }
  TESSERA_ASSIGN_OR_RETURN(qkv[1], behindPast(n, e, 4, qkv[1]));
  TESSERA_ASSIGN_OR_RETURN(qkv[2], behindPast(n, e, 5, qkv[2]));
  if (n.has(4)) o.offset = extentOf(n.in(4), 2);
  TESSERA_ASSIGN_OR_RETURN(o.scale, n.real("scale", 1 / std::sqrt(static_cast<double>(qkv[0].shape[3]))));
  if (n.has(3)) {
    const Tensor mask = maskForKeys(e, n.in(3), qkv[1].shape[2]);
    (mask.dtype == v1::DATA_TYPE_BOOL ? o.keep : o.bias) = mask;
  }
  if (n.has(6)) {
    o.lengths = n.in(6);
    o.offset_by_length = !n.has(4);
  }
  TESSERA_ASSIGN_OR_RETURN(AttentionResult result, attend(n, e, qkv[0], qkv[1], qkv[2], o));
  const Tensor steps[] = {result.scores, result.capped, result.masked, result.weights};
  return {{packed ? joinHeads(e, result.y) : result.y, qkv[1], qkv[2], steps[mode]}};
}

}  // namespace

std::vector<Operator> attentionOperators() {
  return {
      {"Attention", 23, 3, 7, lowerAttention, kFloats, 2, INT_MAX, "", extentsByLowering},
  };
}

}  // namespace tessera::compiler
