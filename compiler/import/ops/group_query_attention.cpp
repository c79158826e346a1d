// GroupQueryAttention: what decoders of text are exported with for ONNX Runtime. Rotary embedding, a state of keys and
// values, causal attention with fewer heads for these than for queries.
//
// B: batch, S: new tokens, P: places of the past, T: places of the present, D: head size. The state has a place for
// each token of the past and behind them, in each sequence of the batch from its own length on, the new ones; the rest
// is zero. All sequences begin at place 0.
#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/attention.h"
#include "compiler/import/ops/coordinates.h"
#include "compiler/import/ops/rotary_embedding.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

constexpr v1::DataType kI64 = v1::DATA_TYPE_I64;

enum Input { kQuery, kKey, kValue, kPastKey, kPastValue, kLengths, kTotal, kCosines, kSines, kPositions, kBias, kSink };

struct Sizes {
  int64_t batch = 0, tokens = 0, past = 0, total = 0, present = 0;
  int64_t heads = 0, groups = 0, head = 0;
  bool prompt = false;  ///< all tokens are new: nothing of the past counts
};

absl::Status misfit(Node& n, const char* what, const std::string& found, const std::string& accepted) {
  return n.invalid(absl::StrCat(what, " does not fit"), {.attribute = what, .found = found, .accepted = accepted});
}

absl::StatusOr<Sizes> readSizes(Node& n) {
  Sizes z;
  TESSERA_RETURN_IF_ERROR(n.requireRank(kQuery, 3, 3));
  TESSERA_ASSIGN_OR_RETURN(z.heads, n.integer("num_heads"));
  TESSERA_ASSIGN_OR_RETURN(z.groups, n.integer("kv_num_heads"));
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "num_heads", z.heads, z.groups));
  // Not more of them than there are elements: sums of them are numbers then.
  if (z.heads > n.in(kQuery).shape[2])
    TESSERA_RETURN_IF_ERROR(checkHeads(n, "the hidden size", n.in(kQuery).shape[2], z.heads));
  z.batch = n.in(kQuery).shape[0];
  z.tokens = n.in(kQuery).shape[1];
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
  if (n.has(kPastKey)) {
    TESSERA_RETURN_IF_ERROR(n.requireRank(kPastKey, 4, 4));
    z.past = n.in(kPastKey).shape[2];
    for (int input : {int{kPastKey}, int{kPastValue}}) {
      TESSERA_RETURN_IF_ERROR(n.requireShape(input, {z.batch, z.groups, z.past, z.head}, "past_key"));
    }
  }
  // The length of the present state: a shape, so it must be known.
  TESSERA_ASSIGN_OR_RETURN(const auto total, n.constantIntegers(kTotal, "total_sequence_length"));
  if (total.size() != 1 || total[0] < z.tokens || n.in(kLengths).elements() != z.batch ||
      !isInteger(n.in(kLengths).dtype)) {
    return misfit(n, "total_sequence_length",
                  absl::StrCat(shapeText(total), ", lengths of shape ", shapeText(n.in(kLengths).shape)),
                  absl::StrCat("one number, ", z.tokens, " or more, and ", z.batch, " lengths"));
  }
  z.total = total[0];
  z.present = std::max(z.total, z.past);
  z.prompt = z.total == z.tokens;
  if (z.batch < 1 || z.tokens < 1 || z.present < 1)
    return misfit(n, "query", shapeText(n.in(kQuery).shape), "not empty");
  TESSERA_RETURN_IF_ERROR(n.checkResult({z.batch, z.groups, z.present, z.head}, n.in(kQuery).dtype));
  return z;
}

/// Query, key and value as batch x heads x tokens x head size.
std::vector<Tensor> splitInputs(Node& n, Emitter& e, const Sizes& z) {
  if (n.has(kKey)) {
    return {splitHeads(e, n.in(kQuery), z.heads), splitHeads(e, n.in(kKey), z.groups),
            splitHeads(e, n.in(kValue), z.groups)};
  }
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (int64_t heads : {z.heads, z.groups, z.groups}) {
    const Tensor part = e.slice(n.in(kQuery), {0, 0, from * z.head}, {z.batch, z.tokens, heads * z.head}, {1, 1, 1});
    parts.push_back(splitHeads(e, part, heads));
    from += heads;
  }
  return parts;
}

/// Of each new token (batch x tokens), as the node gives them, or behind what came before. In a prompt, those behind a
/// shorter sequence's end are all at 1, as ONNX Runtime has it: they show in the state.
Tensor positionsOf(Node& n, Emitter& e, const Sizes& z, const Tensor& lengths) {
  if (n.has(kPositions)) return e.cast(n.in(kPositions), kI64);
  Value known = e.value(lengths);
  return e.generate(kI64, {z.batch, z.tokens}, [&](const Scalars& s, ValueRange at) {
    Value length = e.extract(s, known, {at[0]}), token = position(s, at[1]);
    if (z.prompt) return s.select(s.compare(Relation::kLess, token, length), token, s.integer(1));
    return s.add(s.sub(length, s.integer(z.tokens)), token);
  });
}

/// The state with the new tokens in it.
Tensor present(Emitter& e, const Sizes& z, const Tensor& past, const Tensor& now, const Tensor& lengths) {
  auto padded = [&](const Tensor& x) {
    const int64_t missing = z.present - x.shape[2];
    if (missing == 0) return x;
    return e.pad(x, {0, 0, 0, 0}, {0, 0, missing, 0}, e.scalars(x.dtype).constant(0));
  };
  if (z.prompt) return padded(now);
  const Tensor before = z.past == 0 ? e.zeros(now.dtype, {z.batch, z.groups, z.present, z.head}) : padded(past);
  const Tensor ends = e.reshape(lengths, {z.batch, 1, 1, 1});
  if (z.tokens == 1) {
    // Elements of a result by those of its operands at the same place: nothing is gathered.
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
  return e.generate(now.dtype, {z.batch, z.groups, z.present, z.head}, [&](const Scalars& s, ValueRange at) {
    const Scalars place = s.as(kI64);
    Value start = place.sub(e.extract(s, known, {at[0]}), place.integer(z.tokens));
    Value token = place.sub(position(s, at[2]), start);
    Value read = e.extract(s, fresh, {at[0], at[1], clampedCoordinate(s, token, z.tokens), at[3]});
    Value kept =
        s.select(place.compare(Relation::kLess, token, place.integer(0)), e.extract(s, old, at), s.constant(0));
    return s.select(isInside(s, token, z.tokens), read, kept);
  });
}

absl::Status readOptions(Node& n, Emitter& e, const Sizes& z, AttentionOptions& o) {
  TESSERA_ASSIGN_OR_RETURN(o.scale, n.real("scale", 0.0));
  if (o.scale == 0) o.scale = 1 / std::sqrt(static_cast<double>(z.head));
  TESSERA_ASSIGN_OR_RETURN(o.softcap, n.real("softcap", 0.0));
  TESSERA_ASSIGN_OR_RETURN(const int64_t window, n.integer("local_window_size", -1));
  if (window > 0) o.left = window - 1;
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
  TESSERA_ASSIGN_OR_RETURN(const int64_t scores, n.integer("qk_output", 0));
  if (scores == 0) return absl::OkStatus();
  return n.unsupported("scores as a result",
                       {.attribute = "qk_output", .found = absl::StrCat(scores), .accepted = "0"});
}

Results lowerGroupQueryAttention(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Sizes z, readSizes(n));
  AttentionOptions o;
  TESSERA_RETURN_IF_ERROR(readOptions(n, e, z, o));
  TESSERA_ASSIGN_OR_RETURN(const bool rotary, n.flag("do_rotary", false));
  TESSERA_ASSIGN_OR_RETURN(const bool interleaved, n.flag("rotary_interleaved", false));
  // The node has lengths less one.
  const Tensor given = e.cast(e.reshape(n.in(kLengths), {z.batch}), kI64);
  const Tensor lengths =
      e.elementwise(kI64, {given}, [](const Scalars& s, ValueRange v) { return s.add(v[0], s.integer(1)); });
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
    for (int i : {0, 1}) qkv[i] = rotated(e, qkv[i], n.in(kCosines), n.in(kSines), positions, interleaved);
  }
  const Tensor none;
  const Tensor key = present(e, z, n.has(kPastKey) ? n.in(kPastKey) : none, qkv[1], lengths);
  const Tensor value = present(e, z, n.has(kPastValue) ? n.in(kPastValue) : none, qkv[2], lengths);
  o.causal = true;
  if (!z.prompt) {
    o.lengths = lengths;
    o.offset_by_length = true;
  }
  auto used = [&](const Tensor& state) {
    if (z.present == z.total) return state;
    return e.slice(state, {0, 0, 0, 0}, {z.batch, z.groups, z.total, z.head}, {1, 1, 1, 1});
  };
  TESSERA_ASSIGN_OR_RETURN(const AttentionResult result, attend(n, e, qkv[0], used(key), used(value), o));
  return {{joinHeads(e, result.y), key, value}};
}

}  // namespace

std::vector<Operator> groupQueryAttentionOperators() {
  return {
      {"GroupQueryAttention", 1, 1, 12, lowerGroupQueryAttention, kFloats, 1, INT_MAX, kMicrosoft},
  };
}

}  // namespace tessera::compiler
