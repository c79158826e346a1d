// Linear attention, and the short convolution before it. Both keep a state between calls.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/attention.h"
#include "compiler/import/ops/matmul.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;
namespace math = mlir::math;

/// Most steps and taps; they are unrolled.
constexpr int64_t kSteps = 1024, kTaps = 64;

Tensor combined(Emitter& e, const Tensor& x, const Tensor& y, Value (Scalars::*op)(Value, Value) const) {
  return e.elementwise(x.dtype, {x, y}, [op](const Scalars& s, ValueRange v) { return (s.*op)(v[0], v[1]); });
}

struct UpdateRule {
  bool gated, delta;
};

absl::StatusOr<UpdateRule> readRule(Node& n) {
  TESSERA_ASSIGN_OR_RETURN(const std::string name, n.text("update_rule", "gated_delta"));
  const UpdateRule rule{name.starts_with("gated"), name.ends_with("delta")};
  if (name != "linear" && name != "gated" && name != "delta" && name != "gated_delta") {
    return n.invalid("unknown update rule",
                     {.attribute = "update_rule", .found = name, .accepted = "linear, gated, delta, gated_delta"});
  }
  // Inputs must be present exactly where the rule needs them.
  if (rule.gated != n.has(4) || rule.delta != n.has(5)) {
    return n.invalid("decay or beta do not fit the update rule",
                     {.attribute = "update_rule", .found = name, .accepted = "decay if gated, beta if delta"});
  }
  return rule;
}

/// S' = d S + b k (v - d S^T k)^T, where d = exp(decay) if gated, and b and the difference if delta; o = scale q^T S'.
Results lowerLinearAttention(Node& n, Emitter& e) {
  n.ignore("chunk_size");  // affects how it is computed, not the result
  for (int i : {0, 1, 2}) TESSERA_RETURN_IF_ERROR(n.requireRank(i, 3, 3));
  TESSERA_ASSIGN_OR_RETURN(const int64_t q_heads, n.integer("q_num_heads"));
  TESSERA_ASSIGN_OR_RETURN(const int64_t heads, n.integer("kv_num_heads"));
  TESSERA_ASSIGN_OR_RETURN(double scale, n.real("scale", 0.0));
  TESSERA_ASSIGN_OR_RETURN(const UpdateRule rule, readRule(n));
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "the query's size", n.in(0).shape[2], q_heads));
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "the key's size", n.in(1).shape[2], heads));
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "the value's size", n.in(2).shape[2], heads));
  TESSERA_RETURN_IF_ERROR(checkHeads(n, "the number of query heads", q_heads, heads));
  const int64_t batch = n.in(0).shape[0], steps = n.in(0).shape[1], group = q_heads / heads;
  const int64_t dk = n.in(0).shape[2] / q_heads, dv = n.in(2).shape[2] / heads;
  TESSERA_RETURN_IF_ERROR(n.requireShape(1, {batch, steps, heads * dk}));
  TESSERA_RETURN_IF_ERROR(n.requireShape(2, {batch, steps, heads * dv}));
  TESSERA_RETURN_IF_ERROR(n.requireShape(3, {batch, heads, dk, dv}));
  // The decay is given per head or per element of a key.
  const bool per_key = n.has(4) && n.in(4).rank() == 3 && n.in(4).shape[2] == heads * dk && dk > 1;
  TESSERA_RETURN_IF_ERROR(n.requireShape(4, {batch, steps, per_key ? heads * dk : heads}));
  const bool one_beta = n.has(5) && n.in(5).rank() == 3 && n.in(5).shape[2] == 1;
  TESSERA_RETURN_IF_ERROR(n.requireShape(5, {batch, steps, one_beta ? 1 : heads}));
  if (steps > kSteps || batch < 1 || steps < 1) {
    return n.unsupported(
        absl::StrCat(steps, " steps"),
        {.attribute = "query", .found = shapeText(n.in(0).shape), .accepted = absl::StrCat("1 to ", kSteps, " steps")});
  }
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(dk));
  // The state is computed in f32 at least, and in its own type if that is wider.
  const v1::DataType type = n.in(0).dtype,
                     real = n.has(3) && elementBytes(n.in(3).dtype) > 2 ? n.in(3).dtype : v1::DATA_TYPE_F32;
  const v1::DataType kept = n.has(3) ? n.in(3).dtype : type;
  auto at = [&](int input, int64_t t, Shape shape) {
    return e.reshape(e.cast(e.take(n.in(input), 1, t), real), std::move(shape));
  };
  Tensor state = n.has(3) ? e.cast(n.in(3), real) : e.zeros(real, {batch, heads, dk, dv});
  std::vector<Tensor> outputs;
  // Unrolled: each step reads the state of the one before.
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor key = at(1, t, {batch, heads, dk, 1});
    Tensor update = at(2, t, {batch, heads, 1, dv});
    if (rule.gated) {
      const Tensor decay = at(4, t, {batch, heads, per_key ? dk : 1, 1});
      state = e.elementwise(real, {state, decay},
                            [](const Scalars& s, ValueRange v) { return s.mul(v[0], s.math<math::ExpOp>(v[1])); });
    }
    if (rule.delta) {
      // The delta rule replaces what the state holds for this key.
      TESSERA_ASSIGN_OR_RETURN(const Tensor known, matmul(n, e, e.reshape(key, {batch, heads, 1, dk}), state));
      const Tensor rate = at(5, t, {batch, one_beta ? 1 : heads, 1, 1});
      update = combined(e, combined(e, update, known, &Scalars::sub), rate, &Scalars::mul);
    }
    state = e.elementwise(real, {state, key, update},
                          [](const Scalars& s, ValueRange v) { return s.fma(v[1], v[2], v[0]); });
    const Tensor query =
        e.elementwise(real, {at(0, t, {batch, heads, group, dk})},
                      [scale](const Scalars& s, ValueRange v) { return s.mul(v[0], s.constant(scale)); });
    TESSERA_ASSIGN_OR_RETURN(const Tensor read, matmul(n, e, query, state));
    outputs.push_back(e.reshape(e.cast(read, type), {batch, 1, q_heads * dv}));
  }
  return {{outputs.size() == 1 ? outputs[0] : e.concat(outputs, 1), e.cast(state, kept)}};
}

/// Convolves each channel with its own taps; the state has the previous elements. B x C x L.
Results lowerCausalConvolution(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const std::string activation, n.text("activation", "none"));
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 3));
  TESSERA_RETURN_IF_ERROR(n.requireRank(1, 3, 3));
  const Tensor& x = n.in(0);
  const int64_t batch = x.shape[0], channels = x.shape[1], length = x.shape[2], taps = n.in(1).shape[2];
  TESSERA_RETURN_IF_ERROR(n.requireShape(1, {channels, 1, taps}));
  TESSERA_RETURN_IF_ERROR(n.requireShape(2, {channels}));
  TESSERA_RETURN_IF_ERROR(n.requireShape(3, {batch, channels, taps - 1}));
  if (taps < 1 || taps > kTaps || x.elements() == 0) {
    return n.unsupported(
        absl::StrCat(taps, " taps"),
        {.attribute = "weight", .found = shapeText(n.in(1).shape), .accepted = absl::StrCat("1 to ", kTaps, " taps")});
  }
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") {
    return n.invalid("unknown activation",
                     {.attribute = "activation", .found = activation, .accepted = "none, silu, swish"});
  }
  Tensor whole = x;
  // The state continues the sequence to the left.
  if (taps > 1) {
    whole = e.concat({n.has(3) ? n.in(3) : e.zeros(x.dtype, {batch, channels, taps - 1}), x}, 2);
  }
  std::vector<Tensor> operands;
  const std::vector<int64_t> ones = {1, 1, 1};
  for (int64_t k = 0; k < taps; ++k) {
    operands.push_back(e.slice(whole, {0, 0, k}, {batch, channels, length}, ones));
    operands.push_back(e.reshape(e.take(n.in(1), 2, k), {channels, 1}));
  }
  if (n.has(2)) operands.push_back(e.reshape(n.in(2), {channels, 1}));
  Tensor y = e.elementwise(x.dtype, operands, [&](const Scalars& s, ValueRange v) {
    Value sum = n.has(2) ? v.back() : Value();
    for (int64_t k = 0; k < taps; ++k) {
      Value term = s.mul(v[2 * k], v[2 * k + 1]);
      sum = sum ? s.add(sum, term) : term;
    }
    if (!silu) return sum;
    return s.div(sum, s.add(s.constant(1), s.math<math::ExpOp>(s.neg(sum))));
  });
  if (taps == 1) return {{y, Emitter::wrap(makeConstant(x.dtype, {batch, channels, 0}, ""))}};
  // The last elements are the next call's state.
  return {{y, e.slice(whole, {0, 0, length}, {batch, channels, taps - 1}, ones)}};
}

}  // namespace

std::vector<Operator> linearAttentionOperators() {
  return {
      {"LinearAttention", 27, 3, 6, lowerLinearAttention, kFloats, 3},
      {"CausalConvWithState", 27, 2, 4, lowerCausalConvolution, kFloats, 4},
  };
}

}  // namespace tessera::compiler
