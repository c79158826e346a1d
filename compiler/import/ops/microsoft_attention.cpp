// Attention operators of ONNX Runtime's optimizer and transformer exporters.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/attention.h"
#include "compiler/import/ops/matmul.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::ValueRange;

/// Reads a mask of keys: B x T (or B x S x T), 1 for used keys; or the number of used keys per batch element; or 2 B
/// numbers with the end and start of each batch element's keys.
absl::Status readMask(Node& n, Emitter& e, int input, int64_t batch, int64_t keys, AttentionOptions& o) {
  if (!n.has(input)) return absl::OkStatus();
  const Tensor& mask = n.in(input);
  // One number per batch element: its used keys, from the first on.
  if (mask.shape == Shape{batch}) {
    o.lengths = e.cast(mask, kI64);
    return absl::OkStatus();
  }
  // Ends of all batch elements, then their starts.
  if (mask.shape == Shape{2 * batch} && !isBounded(mask)) {
    std::vector<int64_t> positions(keys);
    std::iota(positions.begin(), positions.end(), 0);
    const Tensor bounds = e.reshape(e.cast(mask, kI64), {2, batch, 1, 1, 1});
    o.keep = e.elementwise(
        v1::DATA_TYPE_BOOL, {Emitter::wrap(integerConstant(positions)), e.take(bounds, 0, 0), e.take(bounds, 0, 1)},
        [](const Scalars& bit, ValueRange v) {
          const Scalars s = bit.as(kI64);
          return bit.logicalAnd(s.compare(Relation::kLess, v[0], v[1]), s.compare(Relation::kLessOrEqual, v[2], v[0]));
        });
    return absl::OkStatus();
  }
  const bool by_query = mask.rank() == 3;
  const bool fits = (mask.rank() == 2 || by_query) && mask.shape[0] == batch && mask.shape.back() == keys;
  if (!fits || isFloat(mask.dtype)) {
    return n.unsupported("a mask of this shape",
                         {.attribute = absl::StrCat("input ", input),
                          .found = absl::StrCat(typeName(mask.dtype), " ", shapeText(mask.shape)),
                          .accepted = absl::StrCat("integers of shape ", batch, ", ", 2 * batch, ", ", batch, "x", keys,
                                                   " or ", batch, "x queries x", keys)});
  }
  // Broadcasts over heads, and over queries without a mask for each.
  const Shape aligned = by_query ? Shape{batch, 1, mask.shape[1], keys} : Shape{batch, 1, 1, keys};
  o.keep = e.cast(e.reshape(mask, aligned), v1::DATA_TYPE_BOOL);
  o.keep->extents = by_query ? permuteExtents(mask, {0, -1, 1, 2}) : permuteExtents(mask, {0, -1, -1, 1});
  return absl::OkStatus();
}

absl::StatusOr<AttentionOptions> readOptions(Node& n) {
  AttentionOptions o;
  TESSERA_ASSIGN_OR_RETURN(o.causal, n.flag("unidirectional", false));
  TESSERA_ASSIGN_OR_RETURN(o.disallowed, n.real("mask_filter_value", -10000.0));
  return o;
}

absl::Status readScale(Node& n, int64_t size, AttentionOptions& o) {
  TESSERA_ASSIGN_OR_RETURN(o.scale, n.real("scale", 0.0));
  if (o.scale == 0) o.scale = 1 / std::sqrt(static_cast<double>(size));
  return absl::OkStatus();
}

/// Returns elements [from, from + count) of the last dimension.
Tensor lastPart(Emitter& e, const Tensor& x, int64_t from, int64_t count) {
  std::vector<int64_t> offsets(x.rank(), 0), sizes = x.shape;
  offsets.back() = from;
  sizes.back() = count;
  Tensor part = e.slice(x, offsets, sizes, std::vector<int64_t>(x.rank(), 1));
  part.extents = x.extents;
  return part;
}

Tensor biased(Emitter& e, const Tensor& x, const Tensor& bias) {
  Tensor sum = e.elementwise(x.dtype, {x, bias}, [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
  sum.extents = x.extents;
  return sum;
}

/// input * weights + bias holds query, key and value side by side; the past is 2 x B x H x P x D.
Results lowerAttention(Node& n, Emitter& e) {
  constexpr int kBias = 2, kMask = 3, kPast = 4, kScores = 5;
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 3));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, 2, 2));
  TESSERA_RETURN_IF_ERROR(
      refuseOtherExtents(n, {{0, {0, 1}}, {kMask, {0, 1, 2}}, {kPast, {1, 3}}, {kScores, {0, 1, 2, 3}}}));
  TESSERA_ASSIGN_OR_RETURN(const int64_t heads, n.integer("num_heads"));
  TESSERA_ASSIGN_OR_RETURN(AttentionOptions o, readOptions(n));
  TESSERA_ASSIGN_OR_RETURN(const bool rotary, n.flag("do_rotary", false));
  TESSERA_ASSIGN_OR_RETURN(const bool shared, n.flag("past_present_share_buffer", false));
  if (!rotary) n.ignore("rotary_embedding_dim");
  if (rotary || shared || n.has(6)) {
    return n.unsupported("rotary embedding or a shared buffer inside of attention",
                         {.attribute = rotary ? "do_rotary" : "past_present_share_buffer", .accepted = "0"});
  }
  const int64_t batch = n.in(0).shape[0], all = n.in(1).shape[1];
  TESSERA_ASSIGN_OR_RETURN(const auto sizes, n.integers("qkv_hidden_sizes", std::vector<int64_t>(3, all / 3)));
  if (sizes.size() != 3 || sizes[0] != sizes[1] || sizes[0] + sizes[1] + sizes[2] != all) {
    return n.invalid(
        "the weights are not those of query, key and value",
        {.attribute = "qkv_hidden_sizes", .found = shapeText(sizes), .accepted = absl::StrCat("sum ", all)});
  }
  TESSERA_ASSIGN_OR_RETURN(Tensor packed, matmul(n, e, n.in(0), n.in(1)));
  packed.extents = n.in(0).extents;
  if (n.has(kBias)) {
    TESSERA_RETURN_IF_ERROR(n.requireShape(kBias, {all}));
    packed = biased(e, packed, n.in(kBias));
  }
  std::vector<Tensor> qkv;
  int64_t from = 0;
  for (int64_t size : sizes) {
    TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", size, heads));
    qkv.push_back(splitHeads(e, lastPart(e, packed, from, size), heads));
    from += size;
  }
  if (n.has(kPast)) {
    Shape past = {2, batch, heads, n.in(kPast).rank() == 5 ? n.in(kPast).shape[3] : 0, qkv[1].shape[3]};
    TESSERA_RETURN_IF_ERROR(n.requireShape(kPast, past));
    o.offset = extentOf(n.in(kPast), 3);
    for (int i : {1, 2}) {
      Tensor state = e.take(n.in(kPast), 0, i - 1);
      state.extents = permuteExtents(n.in(kPast), {1, 2, 3, 4});
      TESSERA_ASSIGN_OR_RETURN(qkv[i], withPast(n, e, state, qkv[i]));
    }
  }
  TESSERA_RETURN_IF_ERROR(readMask(n, e, kMask, batch, qkv[1].shape[2], o));
  if (n.has(kScores)) o.bias = n.in(kScores);
  TESSERA_RETURN_IF_ERROR(readScale(n, qkv[0].shape[3], o));
  TESSERA_ASSIGN_OR_RETURN(const AttentionResult result, attend(n, e, qkv[0], qkv[1], qkv[2], o));
  std::vector<Tensor> results = {joinHeads(e, result.y)};
  if (n.wants(1)) {
    Shape one = qkv[1].shape;
    one.insert(one.begin(), 1);
    if (qkv[1].shape != qkv[2].shape) {
      return n.unsupported("a state of keys and values of different sizes", {.attribute = "qkv_hidden_sizes"});
    }
    Tensor& state = results.emplace_back(e.concat({e.reshape(qkv[1], one), e.reshape(qkv[2], one)}, 0));
    state.extents = permuteExtents(qkv[1], {-1, 0, 1, 2, 3});
  }
  return results;
}

/// Query, key and value are already projected; one bias covers all three.
Results lowerMultiHeadAttention(Node& n, Emitter& e) {
  constexpr int kBias = 3, kMask = 4, kScores = 5, kPast = 6;
  TESSERA_ASSIGN_OR_RETURN(const int64_t heads, n.integer("num_heads"));
  TESSERA_ASSIGN_OR_RETURN(AttentionOptions o, readOptions(n));
  if (!n.has(1) || !n.has(2) || n.has(8) || n.has(9) || n.in(0).rank() != 3) {
    return n.unsupported("packed queries, or a shared buffer",
                         {.attribute = "query",
                          .found = shapeText(n.in(0).shape),
                          .accepted = "query, key and value of three dimensions"});
  }
  const auto rows = [&](int input) { return BoundedDims{input, {0, n.in(input).rank() == 4 ? 2 : 1}}; };
  TESSERA_RETURN_IF_ERROR(refuseOtherExtents(
      n,
      {rows(0), rows(1), rows(2), {kMask, {0, 1, 2}}, {kScores, {0, 1, 2, 3}}, {kPast, {0, 2}}, {kPast + 1, {0, 2}}}));
  std::vector<Tensor> qkv;
  int64_t from = 0;
  for (int i = 0; i < 3; ++i) {
    Tensor x = n.in(i);
    const bool split = i > 0 && x.rank() == 4;  // from an encoder, computed once for all steps
    if (!split) {
      TESSERA_RETURN_IF_ERROR(n.requireRank(i, 3, 3));
      TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", x.shape[2], heads));
    }
    const int64_t size = split ? x.shape[1] * x.shape[3] : x.shape[2];
    if (n.has(kBias) && !split) {
      if (n.in(kBias).rank() != 1 || n.in(kBias).shape[0] < from + size) return n.requireShape(kBias, {from + size});
      x = biased(e, x, lastPart(e, n.in(kBias), from, size));
    }
    from += size;
    qkv.push_back(split ? x : splitHeads(e, x, heads));
  }
  for (int i : {1, 2}) {
    const int past = kPast + i - 1;
    if (!n.has(past)) continue;
    Shape expected = qkv[i].shape;
    if (n.in(past).rank() == 4) expected[2] = n.in(past).shape[2];
    TESSERA_RETURN_IF_ERROR(n.requireShape(past, expected));
    o.offset = extentOf(n.in(past), 2);
    TESSERA_ASSIGN_OR_RETURN(qkv[i], withPast(n, e, n.in(past), qkv[i]));
  }
  TESSERA_RETURN_IF_ERROR(readMask(n, e, kMask, n.in(0).shape[0], qkv[1].shape[2], o));
  if (n.has(kScores)) o.bias = n.in(kScores);
  TESSERA_RETURN_IF_ERROR(readScale(n, qkv[0].shape[3], o));
  TESSERA_ASSIGN_OR_RETURN(const AttentionResult result, attend(n, e, qkv[0], qkv[1], qkv[2], o));
  return {{joinHeads(e, result.y), qkv[1], qkv[2]}};
}

}  // namespace

std::vector<Operator> microsoftAttentionOperators() {
  return {
      {"Attention", 1, 2, 7, lowerAttention, kFloats, 3, INT_MAX, kMicrosoft, extentsByLowering},
      {"MultiHeadAttention", 1, 1, 10, lowerMultiHeadAttention, kFloats, 4, INT_MAX, kMicrosoft, extentsByLowering},
  };
}

}  // namespace tessera::compiler
