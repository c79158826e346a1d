// GroupQueryAttention, to which decoders are exported for ONNX Runtime: rotary embedding, a state of keys and values,
// and causal attention (in encoders: over all keys) with fewer key heads than query heads.
//
// B: batch, S: new tokens, P: slots of the past, T: slots of the present, D: head size. The state has a slot for each
// past token; the new tokens follow at each sequence's own length, and the remaining slots are zero. All sequences
// begin at slot 0.
#include "absl/strings/str_cat.h"
#include "compiler/import/data_types.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/attention.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/rotary_embedding.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

enum GroupQueryInput {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCosines,
  kSines,
  kPositions,
  kBias,
  kSink
};

struct Sizes {
  int64_t batch = 0, tokens = 0, past = 0, total = 0, present = 0;
  int64_t heads = 0, groups = 0, head = 0;
  bool prompt = false;  ///< all tokens are new, and the past does not count
  /// If lengths vary with a range: numbers of tokens and of slots of the present, i64. Only a run then knows whether it
  /// is a prompt.
  bool live = false;
  Tensor live_tokens = {}, live_total = {};
};

absl::Status misfit(Node& n, const char* what, const std::string& found, const std::string& accepted) {
  return n.invalid(absl::StrCat(what, " does not fit"), {.attribute = what, .found = found, .accepted = accepted});
}

absl::StatusOr<Sizes> readSizes(Node& n, Emitter& e) {
  Sizes z;
  TESSERA_RETURN_IF_ERROR(n.requireRank(kQuery, 3, 3));
  TESSERA_ASSIGN_OR_RETURN(z.heads, n.integer("num_heads"));
  TESSERA_ASSIGN_OR_RETURN(z.groups, n.integer("kv_num_heads"));
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "num_heads", z.heads, z.groups));
  // At most as many as elements, so that their sums do not overflow.
  if (z.heads > n.in(kQuery).shape[2])
    TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", n.in(kQuery).shape[2], z.heads));
  z.batch = n.in(kQuery).shape[0];
  z.tokens = n.in(kQuery).shape[1];
  // Without keys the query input also holds keys and values, one behind the other.
  const bool packed = !n.has(kKey);
  const int64_t parts = packed ? z.heads + 2 * z.groups : z.heads;
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", n.in(kQuery).shape[2], parts));
  z.head = n.in(kQuery).shape[2] / parts;
  if (packed == n.has(kValue) || n.has(kPastKey) != n.has(kPastValue) || n.has(kCosines) != n.has(kSines)) {
    return n.invalid("one of two inputs that go together is missing",
                     {.accepted = "key with value, past key with past value, cosines with sines"});
  }
  TESSERA_RETURN_IF_ERROR(n.requireInputs({kLengths, kTotal}));
  for (int input : {int{kKey}, int{kValue}, int{kPastKey}, int{kPastValue}}) {
    if (!n.has(input) || n.in(input).dtype == n.in(kQuery).dtype) continue;
    return misfit(n, absl::StrCat("input ", input).c_str(), typeName(n.in(input).dtype), typeName(n.in(kQuery).dtype));
  }
  for (int input : {int{kKey}, int{kValue}}) {
    if (!packed) TESSERA_RETURN_IF_ERROR(n.requireShape(input, {z.batch, z.tokens, z.groups * z.head}, "key"));
  }
  // The past has slots for earlier tokens, and each sequence uses its own number of slots.
  if (n.has(kPastKey)) {
    TESSERA_RETURN_IF_ERROR(n.requireRank(kPastKey, 4, 4));
    z.past = n.in(kPastKey).shape[2];
    for (int input : {int{kPastKey}, int{kPastValue}}) {
      TESSERA_RETURN_IF_ERROR(n.requireShape(input, {z.batch, z.groups, z.past, z.head}, "past_key"));
    }
  }
  // The length of the present state is a shape, so it must be known.
  TESSERA_ASSIGN_OR_RETURN(const SizeList total_sizes, n.sizes(kTotal, "total_sequence_length"));
  std::vector<int64_t> total = total_sizes.most;
  z.live = n.in(kQuery).extents.contains(1) || (n.has(kPastKey) && n.in(kPastKey).extents.contains(2)) ||
           (total.size() == 1 && total_sizes.follows[0]);
  // Only one of both may be a range; a run has at least as many slots as tokens.
  if (z.live && total.size() == 1) total[0] = std::max(total[0], z.tokens);
  if (total.size() != 1 || total[0] < z.tokens || n.in(kLengths).elements() != z.batch ||
      !isInteger(n.in(kLengths).dtype)) {
    return misfit(n, "total_sequence_length",
                  absl::StrCat(shapeText(total), ", lengths of shape ", shapeText(n.in(kLengths).shape)),
                  absl::StrCat("one number, ", z.tokens, " or more, and ", z.batch, " lengths"));
  }
  z.total = total[0];
  // A state that is longer than needed keeps its length.
  z.present = std::max(z.total, z.past);
  // In a prompt all tokens are new, so the past plays no part.
  z.prompt = !z.live && z.total == z.tokens;
  if (z.live) {
    z.live_tokens = extentOf(n.in(kQuery), 1);
    z.live_total = n.in(kTotal).constant ? scalarI64(z.total) : n.sizeAt(e, kTotal, 0);
  }
  if (z.batch < 1 || z.tokens < 1 || z.present < 1)
    return misfit(n, "query", shapeText(n.in(kQuery).shape), "not empty");
  TESSERA_RETURN_IF_ERROR(n.checkResult({z.batch, z.groups, z.present, z.head}, n.in(kQuery).dtype));
  return z;
}

/// Returns query, key and value as batch x heads x tokens x head size.
std::vector<Tensor> splitInputs(Node& n, Emitter& e, const Sizes& z) {
  if (n.has(kKey)) {
    return {splitHeads(e, n.in(kQuery), z.heads), splitHeads(e, n.in(kKey), z.groups),
            splitHeads(e, n.in(kValue), z.groups)};
  }
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (int64_t heads : {z.heads, z.groups, z.groups}) {
    Tensor part = e.slice(n.in(kQuery), {0, 0, from * z.head}, {z.batch, z.tokens, heads * z.head}, {1, 1, 1});
    part.extents = n.in(kQuery).extents;
    parts.push_back(splitHeads(e, part, heads));
    from += heads;
  }
  return parts;
}

/// Returns the number of used slots of each sequence after the new tokens: its length. In a run that may be a prompt,
/// the number of all tokens, if all of them are new.
Tensor endsOf(Emitter& e, const Sizes& z, const Tensor& lengths) {
  if (!z.live) return lengths;
  return e.elementwise(kI64, {lengths, z.live_tokens, z.live_total}, [](const Scalars& s, ValueRange v) {
    return s.select(s.compare(Relation::kEqual, v[1], v[2]), v[1], v[0]);
  });
}

/// Returns the position of each new token (batch x tokens): as given, or following the past. In a prompt, tokens beyond
/// a shorter sequence's end have position 1, as in ONNX Runtime; the state shows it.
Tensor positionsOf(Node& n, Emitter& e, const Sizes& z, const Tensor& lengths) {
  if (n.has(kPositions)) return e.cast(n.in(kPositions), kI64);
  Value known = e.value(lengths), tokens = z.live ? e.value(z.live_tokens) : Value(),
        total = z.live ? e.value(z.live_total) : Value();
  return e.generate(kI64, {z.batch, z.tokens}, [&](const Scalars& s, ValueRange at) {
    Value length = e.extract(s, known, {at[0]}), token = position(s, at[1]);
    const auto ofPrompt = [&] { return s.select(s.compare(Relation::kLess, token, length), token, s.integer(1)); };
    if (z.prompt) return ofPrompt();
    Value count = z.live ? e.extract(s, tokens, {}) : s.integer(z.tokens);
    Value behind = s.add(s.sub(length, count), token);
    if (!z.live) return behind;
    return s.select(s.compare(Relation::kEqual, count, e.extract(s, total, {})), ofPrompt(), behind);
  });
}

/// Returns the state with the new tokens, the last one at each sequence's end.
Tensor present(Emitter& e, const Sizes& z, const Tensor& past, const Tensor& now, const Tensor& lengths) {
  auto padded = [&](const Tensor& x) {
    const int64_t missing = z.present - x.shape[2];
    if (missing == 0) return x;
    // Slots behind the used ones are zeros.
    return e.pad(x, {0, 0, 0, 0}, {0, 0, missing, 0}, e.scalars(x.dtype).constant(0));
  };
  if (z.prompt) return padded(now);
  // Without a past there is a state of zeros to write to.
  const Tensor before = z.past == 0 ? e.zeros(now.dtype, {z.batch, z.groups, z.present, z.head}) : padded(past);
  const Tensor ends = e.reshape(lengths, {z.batch, 1, 1, 1});
  if (z.tokens == 1) {
    // Elements of the result come from the same positions of the operands, so nothing is gathered.
    return e.elementwise(now.dtype, {before, now, ends}, [&](const Scalars& s, ValueRange v) {
      const Scalars place = s.as(kI64);
      Value here = position(s, mlir::linalg::IndexOp::create(s.b, s.loc, 2));
      Value last = place.sub(v[2], place.integer(1));
      Value fresh = place.compare(Relation::kEqual, here, last);
      Value kept = s.select(place.compare(Relation::kLess, here, last), v[0], s.constant(0));
      return s.select(fresh, v[1], kept);
    });
  }
  Value old = e.value(before), fresh = e.value(now), known = e.value(lengths);
  Value tokens = z.live ? e.value(z.live_tokens) : Value();
  return e.generate(now.dtype, {z.batch, z.groups, z.present, z.head}, [&](const Scalars& s, ValueRange at) {
    const Scalars place = s.as(kI64);
    Value count = tokens ? e.extract(place, tokens, {}) : place.integer(z.tokens);
    // The last new token lies at the sequence's end, so the first one lies this many slots before.
    Value start = place.sub(e.extract(s.as(kI64), known, {at[0]}), count);
    Value token = place.sub(position(s, at[2]), start);
    Value read = e.extract(s, fresh, {at[0], at[1], clampedCoordinate(s, token, z.tokens), at[3]});
    Value kept =
        s.select(place.compare(Relation::kLess, token, place.integer(0)), e.extract(s, old, at), s.constant(0));
    // Compares as unsigned: a negative value is then large.
    return s.select(s.as(v1::DATA_TYPE_U64).compare(Relation::kLess, token, count), read, kept);
  });
}

absl::Status readOptions(Node& n, Emitter& e, const Sizes& z, AttentionOptions& o) {
  TESSERA_ASSIGN_OR_RETURN(o.scale, n.real("scale", 0.0));
  if (o.scale == 0) o.scale = 1 / std::sqrt(static_cast<double>(z.head));
  // A window of w tokens reaches w - 1 to the left.
  TESSERA_ASSIGN_OR_RETURN(o.softcap, n.real("softcap", 0.0));
  TESSERA_ASSIGN_OR_RETURN(const int64_t window, n.integer("local_window_size", -1));
  if (window > 0) o.left = window - 1;
  TESSERA_ASSIGN_OR_RETURN(o.causal, n.flag("causal", true));
  if (!o.causal && o.left) {  // as ONNX Runtime
    return n.invalid(
        "a window needs a causal mask",
        // A smooth softmax has one more score, 0, that belongs to no key.
        {.attribute = "local_window_size", .found = absl::StrCat(window), .accepted = "-1 where 'causal' is 0"});
  }
  TESSERA_ASSIGN_OR_RETURN(const bool smooth, n.flag("smooth_softmax", false));
  if (smooth) o.sink = Emitter::wrap(realConstant(n.in(kQuery).dtype, {}, {0.0}));
  if (n.has(kSink)) {
    TESSERA_RETURN_IF_ERROR(n.requireShape(kSink, {z.heads}, "head_sink"));
    o.sink = e.reshape(n.in(kSink), {z.heads, 1, 1});
  }
  if (n.has(kBias)) o.bias = n.in(kBias);
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    TESSERA_ASSIGN_OR_RETURN(const std::string type, n.text(name, "NONE"));
    if (type != "NONE") {
      return n.unsupported("a quantized state", {.attribute = name, .found = type, .accepted = "NONE"});
    }
  }
  n.ignore("kv_cache_bit_width");  // of a quantized state
  for (const char* name : {"q_norm_epsilon", "k_norm_epsilon", "qk_norm_epsilon"}) n.ignore(name);  // of absent inputs
  TESSERA_ASSIGN_OR_RETURN(const bool sliding, n.flag("sliding_window_cache", false));
  if (sliding) {
    return n.unsupported("a state that holds a window",
                         {.attribute = "sliding_window_cache", .found = "1", .accepted = "0"});
  }
  TESSERA_ASSIGN_OR_RETURN(const int64_t scores, n.integer("qk_output", 0));
  if (scores == 0) return absl::OkStatus();
  return n.unsupported("scores as a result",
                       {.attribute = "qk_output", .found = absl::StrCat(scores), .accepted = "0"});
}

/// Returns the extents of the output state: batch, and the total number of slots, or the input's number.
std::map<int64_t, Value> presentExtents(const Node& n, Emitter& e, const Sizes& z) {
  std::map<int64_t, Value> extents = permuteExtents(n.in(kQuery), {0});
  if (!z.live) return extents;
  const Tensor past = n.has(kPastKey) ? extentOf(n.in(kPastKey), 2) : scalarI64(0);
  const Tensor longer =
      e.elementwise(kI64, {z.live_total, past}, [](const Scalars& s, ValueRange v) { return s.max(v[0], v[1]); });
  extents[2] = n.sameExtent(e.value(longer), e.value(z.live_total)) ? e.value(z.live_total) : e.value(longer);
  return extents;
}

/// Batches and lengths may be ranges.
absl::Status checkExtents(const Node& n) {
  TESSERA_RETURN_IF_ERROR(refuseOtherExtents(n, {{kQuery, {0, 1}},
                                                 {kKey, {0, 1}},
                                                 {kValue, {0, 1}},
                                                 {kPastKey, {0, 2}},
                                                 {kPastValue, {0, 2}},
                                                 {kLengths, {0}},
                                                 {kPositions, {0, 1}},
                                                 {kBias, {0, 1, 2, 3}}}));
  const auto same = [&](int input, int64_t dim, int64_t of_query, const char* what) {
    return n.has(input) ? requireSameExtent(n, n.in(kQuery), of_query, n.in(input), dim, what) : absl::OkStatus();
  };
  for (int input : {int{kKey}, int{kValue}, int{kPastKey}, int{kPastValue}, int{kLengths}, int{kPositions}})
    TESSERA_RETURN_IF_ERROR(same(input, 0, 0, "batches"));
  for (int input : {int{kKey}, int{kValue}, int{kPositions}})
    TESSERA_RETURN_IF_ERROR(same(input, 1, 1, "numbers of tokens"));
  return n.has(kPastKey) ? requireSameExtent(n, n.in(kPastKey), 2, n.in(kPastValue), 2, "lengths of the state")
                         : absl::OkStatus();
}

Results lowerGroupQueryAttention(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Sizes z, readSizes(n, e));
  TESSERA_RETURN_IF_ERROR(checkExtents(n));
  AttentionOptions o;
  TESSERA_RETURN_IF_ERROR(readOptions(n, e, z, o));
  TESSERA_ASSIGN_OR_RETURN(const bool rotary, n.flag("do_rotary", false));
  TESSERA_ASSIGN_OR_RETURN(const bool interleaved, n.flag("rotary_interleaved", false));
  // The input holds lengths minus one.
  const Tensor given = e.cast(e.reshape(n.in(kLengths), {z.batch}), kI64);
  const Tensor lengths =
      e.elementwise(kI64, {given}, [](const Scalars& s, ValueRange v) { return s.add(v[0], s.integer(1)); });
  const Tensor ends = endsOf(e, z, lengths);
  std::vector<Tensor> qkv = splitInputs(n, e, z);
  if (rotary) {
    TESSERA_RETURN_IF_ERROR(n.requireInputs({kCosines, kSines}));
    const Shape table = n.in(kCosines).shape;
    if (table.size() != 2 || table[0] < 1 || table[1] < 1 || 2 * table[1] > z.head || n.in(kSines).shape != table ||
        n.in(kCosines).dtype != n.in(kQuery).dtype || n.in(kSines).dtype != n.in(kQuery).dtype) {
      return misfit(n, "cos_cache", shapeText(table),
                    absl::StrCat("positions x at most ", z.head / 2, " of the query's type, sines alike"));
    }
    if (n.has(kPositions)) {
      TESSERA_RETURN_IF_ERROR(n.requireShape(kPositions, {z.batch, z.tokens}, "position_ids"));
    }
    const Tensor positions = positionsOf(n, e, z, lengths);
    for (int i : {0, 1}) qkv[i] = applyRotaryEmbedding(e, qkv[i], n.in(kCosines), n.in(kSines), positions, interleaved);
  }
  const Tensor none;
  Tensor key = present(e, z, n.has(kPastKey) ? n.in(kPastKey) : none, qkv[1], ends);
  Tensor value = present(e, z, n.has(kPastValue) ? n.in(kPastValue) : none, qkv[2], ends);
  // Keys and values of the state are results, and have extents before they are used.
  key.extents = value.extents = presentExtents(n, e, z);
  if (!o.causal) {
    o.lengths = lengths;  // each token attends to all keys of its sequence, also in a prompt
  } else if (!z.prompt) {
    o.lengths = ends;
    // Every sequence ends at another slot, and slots beyond were zeroed above.
    o.offset_by_length = o.keys_counted = true;
  }
  auto used = [&](const Tensor& state) {
    Tensor part = state;
    // Attention reads only the slots that can be used.
    if (z.present != z.total) part = e.slice(state, {0, 0, 0, 0}, {z.batch, z.groups, z.total, z.head}, {1, 1, 1, 1});
    part.extents = permuteExtents(n.in(kQuery), {0});
    if (z.live) setExtent(part, 2, z.live_total);
    return part;
  };
  TESSERA_ASSIGN_OR_RETURN(const AttentionResult result, attend(n, e, qkv[0], used(key), used(value), o));
  return {{joinHeads(e, result.y), key, value}};
}

}  // namespace

std::vector<Operator> groupQueryAttentionOperators() {
  return {
      {"GroupQueryAttention", 1, 1, 12, lowerGroupQueryAttention, kFloats, 1, INT_MAX, kMicrosoft, extentsByLowering},
  };
}

}  // namespace tessera::compiler
