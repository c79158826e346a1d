// Recurrent layers. The product of the inputs with W is one matrix product over all steps; the rest of a step is matrix
// products and elementwise operations. A few steps are unrolled; more are a loop (rolled_loop.h). B: batch, T: steps,
// D: directions, H: hidden size, I: input size, G: gates.
#include "absl/strings/str_cat.h"
#include "compiler/import/operator.h"
#include "compiler/import/ops/matmul.h"
#include "compiler/import/ops/quantized.h"
#include "compiler/import/ops/recurrent_activation.h"
#include "compiler/import/ops/rolled_loop.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::ValueRange;

struct Layer {
  int64_t steps = 0, batch = 0, hidden = 0, directions = 1, gates = 1;
  bool quantized = false;    ///< W is D x I x G H and R is D x H x G H, with 8-bit elements
  bool reverse = false;      ///< the first direction runs backwards
  bool batch_first = false;  ///< X is B x T x I, Y is B x T x D x H, states are B x D x H; else T, D and D lead
  std::vector<Activation> activations = {};
};

/// Scale and zero point of quantized weights: one, or one per column.
struct Quantization {
  Tensor scale = {}, zero = {};
};

/// The operands of one direction: w [G H, I], r [G H, H], their biases [G H] or none, and its activations.
struct Direction {
  Tensor w, r;
  Tensor w_bias = {}, r_bias = {}, peepholes = {};
  std::optional<Quantization> w_quantization = {}, r_quantization = {};  ///< if set, w is [I, G H] and r is [H, G H]
  const Activation* activations = nullptr;
};

/// The state of a cell, each B x H; RNN and GRU have no c.
struct State {
  Tensor h;
  Tensor c = {};
};

/// Emits one step at the insertion point of `e`.
using Step = llvm::function_ref<State(Emitter& e, const Direction& d, const Tensor& x, const State& before)>;

Tensor scalarI32(int64_t value) {
  const auto number = static_cast<int32_t>(value);
  return Emitter::wrap(makeConstant(v1::DATA_TYPE_I32, {}, {reinterpret_cast<const char*>(&number), sizeof(number)}));
}

/// Returns indices [from, from + count) of dimension `dim`.
Tensor part(Emitter& e, const Tensor& x, int64_t dim, int64_t from, int64_t count) {
  std::vector<int64_t> offsets(x.rank(), 0), sizes = x.shape, strides(x.rank(), 1);
  offsets[dim] = from;
  sizes[dim] = count;
  return e.slice(x, offsets, sizes, strides);
}

Tensor add(Emitter& e, const Tensor& x, const Tensor& y) {
  return e.elementwise(x.dtype, {x, y}, [](const Scalars& s, ValueRange v) { return s.add(v[0], v[1]); });
}

/// Multiplies x by 8-bit weights: quantizes x by its range and sums exactly.
Tensor quantizedProduct(Emitter& e, const Tensor& x, const Tensor& weights, const Quantization& q) {
  constexpr v1::DataType i32 = v1::DATA_TYPE_I32;
  const ScaledU8 left = quantizeDynamically(e, x);
  auto less = [&](const Tensor& elements, const Tensor& zero) {
    return e.elementwise(i32, {elements, zero}, [&](const Scalars& s, ValueRange v) {
      return s.as(i32).sub(s.cast(v[0], i32), s.cast(v[1], i32));
    });
  };
  const Tensor sum = product(e, less(left.y, left.zero), less(weights, q.zero), false, false);
  return e.elementwise(x.dtype, {sum, left.scale, q.scale}, [&](const Scalars& s, ValueRange v) {
    const Scalars real = s.as(x.dtype);
    return real.mul(s.cast(v[0], x.dtype), real.mul(v[1], v[2]));
  });
}

Tensor inputProduct(Emitter& e, const Tensor& x, const Direction& d) {
  return d.w_quantization ? quantizedProduct(e, x, d.w, *d.w_quantization) : product(e, x, d.w, false, true);
}

Tensor stateProduct(Emitter& e, const Tensor& h, const Direction& d) {
  return d.r_quantization ? quantizedProduct(e, h, d.r, *d.r_quantization) : product(e, h, d.r, false, true);
}

/// Checks scales and zero points of the weights in input `weights`, from input `scale` on: D or D x G H of each.
absl::Status checkQuantization(Node& n, const Layer& layer, int weights, int scale) {
  TESSERA_RETURN_IF_ERROR(n.requireInputs({scale, scale + 1}));
  const Shape one = {layer.directions}, each = {layer.directions, layer.gates * layer.hidden};
  const v1::DataType type = n.in(weights).dtype;
  const bool bytes = type == v1::DATA_TYPE_I8 || type == v1::DATA_TYPE_U8;
  for (int i : {scale, scale + 1}) {
    const bool fits = n.in(i).shape == one || n.in(i).shape == each;
    if (bytes && fits && n.in(i).dtype == (i == scale ? n.in(0).dtype : type)) continue;
    return n.invalid(
        "the quantization of the weights does not fit",
        {.attribute = absl::StrCat("input ", i),
         .found = absl::StrCat(shapeText(n.in(i).shape), " of ", typeName(n.in(i).dtype), " for ", typeName(type)),
         .accepted = absl::StrCat(shapeText(one), " or ", shapeText(each), ", i8 or u8")});
  }
  return absl::OkStatus();
}

absl::StatusOr<Layer> readLayer(Node& n, int64_t gates, const std::vector<std::string>& functions,
                                bool quantized = false) {
  Layer layer{.gates = gates, .quantized = quantized};
  TESSERA_RETURN_IF_ERROR(n.requireRank(0, 3, 3));
  TESSERA_RETURN_IF_ERROR(n.requireRank(2, 3, 3));
  TESSERA_ASSIGN_OR_RETURN(layer.batch_first, n.flag("layout", false));
  TESSERA_ASSIGN_OR_RETURN(const std::string direction, n.text("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return n.invalid("unknown direction",
                     {.attribute = "direction", .found = direction, .accepted = "forward, reverse, bidirectional"});
  }
  layer.reverse = direction == "reverse";
  layer.directions = direction == "bidirectional" ? 2 : 1;
  const Shape& x = n.in(0).shape;
  layer.steps = x[layer.batch_first ? 1 : 0];
  layer.batch = x[layer.batch_first ? 0 : 1];
  layer.hidden = n.in(2).shape[quantized ? 1 : 2];
  TESSERA_ASSIGN_OR_RETURN(const int64_t hidden, n.integer("hidden_size", layer.hidden));
  if (hidden != layer.hidden) {
    return n.invalid(
        "attribute 'hidden_size' differs from the weights",
        {.attribute = "hidden_size", .found = absl::StrCat(hidden), .accepted = absl::StrCat(layer.hidden)});
  }
  if (layer.hidden < 1 || x[2] < 1) {
    return n.unsupported(absl::StrCat("an input of the shape ", shapeText(x), " and a state of ", layer.hidden),
                         {.attribute = layer.hidden < 1 ? "R" : "X",
                          .found = shapeText(layer.hidden < 1 ? n.in(2).shape : x),
                          .accepted = "at least one feature in inputs and states"});
  }
  TESSERA_ASSIGN_OR_RETURN(layer.activations, readActivations(n, functions, layer.directions));

  // All inputs and their shapes in ONNX's order; absent ones are skipped.
  const int64_t d = layer.directions, h = layer.hidden, b = layer.batch;
  const Shape state = layer.batch_first ? Shape{b, d, h} : Shape{d, b, h};
  const Shape w = quantized ? Shape{d, x[2], gates * h} : Shape{d, gates * h, x[2]};
  const Shape r = quantized ? Shape{d, h, gates * h} : Shape{d, gates * h, h};
  const Shape expected[] = {x, w, r, {d, 2 * gates * h}, {b}, state, state, {d, 3 * h}};
  static constexpr const char* kNames[] = {"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"};
  for (int i = 1; i < std::min<int>(n.numInputs(), std::size(expected)); ++i) {
    if (!n.has(i)) continue;
    v1::DataType type = i == 4 ? v1::DATA_TYPE_I32 : n.in(0).dtype;
    // Quantized weights have a type of their own, whose scales are checked below.
    if (quantized && i <= 2) type = n.in(i).dtype;
    if (n.in(i).shape == expected[i] && n.in(i).dtype == type) continue;
    return n.invalid(absl::StrCat("input '", kNames[i], "' does not fit"),
                     {.attribute = kNames[i],
                      .found = absl::StrCat(shapeText(n.in(i).shape), " of ", typeName(n.in(i).dtype)),
                      .accepted = absl::StrCat(shapeText(expected[i]), " of ", typeName(type))});
  }
  if (quantized) {
    if (n.in(0).dtype != v1::DATA_TYPE_F32 || n.in(0).elements() == 0) {
      return n.unsupported("an input of this type",
                           {.attribute = "X",
                            .found = absl::StrCat(shapeText(n.in(0).shape), " of ", typeName(n.in(0).dtype)),
                            .accepted = "f32, not empty"});
    }
    TESSERA_RETURN_IF_ERROR(checkQuantization(n, layer, 1, 8));
    TESSERA_RETURN_IF_ERROR(checkQuantization(n, layer, 2, 10));
  }
  // The largest intermediate results: the projected inputs, and the outputs of all steps.
  TESSERA_RETURN_IF_ERROR(n.checkResult({layer.steps, b, gates * h}, n.in(0).dtype));
  TESSERA_RETURN_IF_ERROR(n.checkResult({layer.steps, d, b, h}, n.in(0).dtype));
  return layer;
}

/// Keeps the old state, or gives zero, where step t (i32) is beyond the end of the sequence.
Tensor withinSequence(Emitter& e, const Tensor& lengths, const Tensor& t, const Tensor& now, const Tensor* before) {
  std::vector<Tensor> operands = {now, lengths, t};
  if (before) operands.push_back(*before);
  return e.elementwise(now.dtype, operands, [&](const Scalars& s, ValueRange v) {
    Value runs = s.as(v1::DATA_TYPE_I32).compare(Relation::kGreater, v[1], v[2]);
    return s.select(runs, v[0], before ? v[3] : s.constant(0));
  });
}

/// Computes a step and its part of Y for sequences that may be shorter than the layer: beyond their end Y is zero and
/// the state is kept.
State maskedStep(Emitter& e, const Direction& direction, const Tensor& lengths, const Tensor& t, const Tensor& x,
                 const State& before, Step step, Tensor& output) {
  State next = step(e, direction, x, before);
  output = next.h;
  if (lengths.shape.empty()) return next;
  output = withinSequence(e, lengths, t, next.h, nullptr);
  next.h = withinSequence(e, lengths, t, next.h, &before.h);
  if (next.c.value) next.c = withinSequence(e, lengths, t, next.c, &before.c);
  return next;
}

/// Emits all steps of a direction as a loop of the module. `state` is the initial state, then the final one. Returns
/// the outputs of all steps, T x B x H.
absl::StatusOr<Tensor> loopOfSteps(Node& n, Emitter& e, const Layer& layer, const Direction& direction, bool backwards,
                                   const Tensor& projected, const Tensor& lengths, State& state, Step step) {
  LoopRequest request{.most = layer.steps, .carried = {state.h}, .scanned = {projected}};
  // Four gates mean an LSTM, the only layer with a cell state.
  if (layer.gates == 4) request.carried.push_back(state.c);
  // A backward layer reads and writes its steps from the last to the first.
  request.scanned_reversed = {backwards};
  request.stacked_reversed = {backwards};
  const auto build = [&](Emitter& body, const LoopArguments& given) -> absl::StatusOr<LoopYield> {
    // The step's position in the sequence, to compare with the sequence's length.
    const Tensor t = body.elementwise(v1::DATA_TYPE_I32, {given.iteration}, [&](const Scalars& s, ValueRange v) {
      const Scalars count = s.as(v1::DATA_TYPE_I32);
      Value i = s.cast(v[0], v1::DATA_TYPE_I32);
      return backwards ? count.sub(count.integer(layer.steps - 1), i) : i;
    });
    State before{.h = given.carried[0]};
    if (layer.gates == 4) before.c = given.carried[1];
    Tensor output;
    const State next = maskedStep(body, direction, lengths, t, given.parts[0], before, step, output);
    LoopYield yield{.carried = {next.h}, .parts = {output}};
    if (layer.gates == 4) yield.carried.push_back(next.c);
    return yield;
  };
  TESSERA_ASSIGN_OR_RETURN(const auto results, n.loop(e, request, build));
  state.h = results->carried[0];
  if (layer.gates == 4) state.c = results->carried[1];
  return results->stacked[0];
}

/// Returns the steps of each sequence, batch x 1; of rank 0 if all have all steps. A run-time number of steps bounds
/// each length.
absl::StatusOr<Tensor> lengthsOf(Node& n, Emitter& e, const Layer& layer) {
  const int64_t batch_dim = layer.batch_first ? 0 : 1;
  const auto of_x = [&](int64_t dim) { return n.in(0).extents.find(dim); };
  // Run-time sizes: the batch or the number of steps.
  const auto batch = of_x(batch_dim), steps = of_x(1 - batch_dim);
  if (of_x(2) != n.in(0).extents.end()) return refuseExtent(n, 0, 2, "elements along it are combined");
  if (layer.quantized) TESSERA_RETURN_IF_ERROR(refuseExtents(n, "all rows are quantized by one scale"));
  for (int i = 1; i < n.numInputs(); ++i) {
    const int64_t dim = i == 4 ? 0 : batch_dim;
    for (const auto& [bounded, extent] : n.in(i).extents) {
      const bool fits =
          i >= 4 && i <= 6 && bounded == dim && batch != n.in(0).extents.end() && n.sameExtent(extent, batch->second);
      if (!fits) return refuseExtent(n, i, bounded, "it has to fit input 0");
    }
    // A single sequence may have a static batch of 1.
    const bool known = i >= 4 && i <= 6 && n.has(i) && !n.in(i).extents.contains(dim);
    if (known && batch != n.in(0).extents.end() && layer.batch > 1)
      return refuseExtent(n, 0, batch_dim, absl::StrCat("input ", i, " has ", layer.batch, " sequences"));
  }
  Tensor given = n.has(4) ? e.reshape(n.in(4), {layer.batch, 1}) : Tensor{};
  // Without a run-time number of steps the lengths are as given.
  if (steps == n.in(0).extents.end()) return given;
  Tensor count = e.elementwise(v1::DATA_TYPE_I32, {extentOf(n.in(0), 1 - batch_dim)},
                               [](const Scalars& s, ValueRange v) { return s.cast(v[0], v1::DATA_TYPE_I32); });
  count = e.reshape(count, {1, 1});
  // All sequences have the same length.
  if (!n.has(4)) return e.broadcast(count, {layer.batch, 1});
  return e.elementwise(v1::DATA_TYPE_I32, {given, count},
                       [](const Scalars& s, ValueRange v) { return s.min(v[0], v[1]); });
}

/// Results of a layer without steps or without sequences: states stay as they are.
std::vector<Tensor> idleLayer(Node& n, Emitter& e, const Layer& layer) {
  const int64_t b = layer.batch, d = layer.directions, h = layer.hidden;
  const Shape all = layer.batch_first ? Shape{b, layer.steps, d, h} : Shape{layer.steps, d, b, h};
  const Shape state = layer.batch_first ? Shape{b, d, h} : Shape{d, b, h};
  std::vector<Tensor> results = {e.zeros(n.in(0).dtype, all)};
  for (int input = 5; input < (layer.gates == 4 ? 7 : 6); ++input)
    results.push_back(n.has(input) ? n.in(input) : e.zeros(n.in(0).dtype, state));
  return results;
}

/// Runs all steps of all directions. `fold_bias`: whether the recurrent bias may be added to the input's. Results: Y,
/// Y_h, Y_c.
Results runLayer(Node& n, Emitter& e, const Layer& layer, bool fold_bias, Step step) {
  const int64_t h = layer.hidden, rows = layer.gates * h, lead = layer.batch_first ? 1 : 0;
  const bool has_c = layer.gates == 4;
  TESSERA_ASSIGN_OR_RETURN(const Tensor lengths, lengthsOf(n, e, layer));
  if (layer.steps == 0 || layer.batch == 0) return idleLayer(n, e, layer);
  std::vector<Tensor> outputs, last_h, last_c;
  for (int64_t d = 0; d < layer.directions; ++d) {
    // Each direction has its own weights, biases and peepholes, one behind the other.
    Direction direction{.w = e.take(n.in(1), 0, d), .r = e.take(n.in(2), 0, d)};
    direction.activations = layer.activations.data() + d * (layer.activations.size() / layer.directions);
    if (n.has(3)) {
      const Tensor bias = e.take(n.in(3), 0, d);
      direction.w_bias = part(e, bias, 0, 0, rows);
      // Both biases are always added together, unless a reset gate comes between them.
      direction.r_bias = part(e, bias, 0, rows, rows);
      if (fold_bias) direction.w_bias = add(e, direction.w_bias, direction.r_bias);
    }
    if (n.has(7)) direction.peepholes = e.take(n.in(7), 0, d);
    if (layer.quantized) {
      direction.w_quantization = {e.take(n.in(8), 0, d), e.take(n.in(9), 0, d)};
      direction.r_quantization = {e.take(n.in(10), 0, d), e.take(n.in(11), 0, d)};
    }
    // Projects all steps at once: one large product instead of many small ones.
    const Shape flat = {layer.steps * layer.batch, n.in(0).shape[2]};
    Tensor projected = inputProduct(e, e.reshape(n.in(0), flat), direction);
    if (n.has(3)) projected = add(e, projected, direction.w_bias);
    projected = e.reshape(projected, {n.in(0).shape[0], n.in(0).shape[1], rows});

    auto initial = [&](int input) {
      if (n.has(input)) return e.take(n.in(input), lead, d);
      return e.zeros(n.in(0).dtype, {layer.batch, h});
    };
    State state{.h = initial(5)};
    if (has_c) state.c = initial(6);
    // Backwards, a shorter sequence keeps its initial state until its own last step.
    const bool backwards = layer.reverse || d == 1;
    const Shape kept = layer.batch_first ? Shape{layer.batch, 1, h} : Shape{1, layer.batch, h};
    const Shape all = layer.batch_first ? Shape{layer.batch, layer.steps, 1, h} : Shape{layer.steps, 1, layer.batch, h};
    // Long layers are a loop, short ones are unrolled, which lets their steps optimize together.
    if (layer.steps > kMaxUnrolled) {
      if (layer.batch_first) projected = e.transpose(projected, {1, 0, 2});
      TESSERA_ASSIGN_OR_RETURN(Tensor whole,
                               loopOfSteps(n, e, layer, direction, backwards, projected, lengths, state, step));
      if (layer.batch_first) whole = e.transpose(whole, {1, 0, 2});
      if (n.wants(0)) outputs.push_back(e.reshape(whole, all));
      last_h.push_back(e.reshape(state.h, kept));
      if (has_c) last_c.push_back(e.reshape(state.c, kept));
      continue;
    }
    std::vector<Tensor> each(layer.steps);
    for (int64_t i = 0; i < layer.steps; ++i) {
      // Steps are taken in the direction's order and stored in the sequence's.
      const int64_t t = backwards ? layer.steps - 1 - i : i;
      Tensor output;
      state = maskedStep(e, direction, lengths, scalarI32(t), e.take(projected, lead, t), state, step, output);
      each[t] = e.reshape(output, layer.batch_first ? Shape{layer.batch, 1, 1, h} : Shape{1, 1, layer.batch, h});
    }
    if (n.wants(0)) outputs.push_back(e.concat(each, lead));
    last_h.push_back(e.reshape(state.h, kept));
    if (has_c) last_c.push_back(e.reshape(state.c, kept));
  }
  auto joined = [&](const std::vector<Tensor>& parts, int64_t axis) {
    if (parts.empty()) return Tensor{};
    return parts.size() == 1 ? parts[0] : e.concat(parts, axis);
  };
  std::vector<Tensor> results = {joined(outputs, lead + 1), joined(last_h, lead)};
  if (has_c) results.push_back(joined(last_c, lead));
  // Extents of the input apply to outputs of all steps; the final state has no steps.
  for (const auto& [dim, extent] : n.in(0).extents) {
    const bool batch = dim == (layer.batch_first ? 0 : 1);
    if (n.wants(0)) results[0].extents[batch && !layer.batch_first ? 2 : dim] = extent;
    for (size_t i = 1; batch && i < results.size(); ++i) results[i].extents[layer.batch_first ? 0 : 1] = extent;
  }
  return results;
}

/// h' = f(x W + h R + b)
Results lowerRnn(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Layer layer, readLayer(n, 1, {"Tanh"}));
  return runLayer(n, e, layer, true, [&](Emitter& at, const Direction& d, const Tensor& x, const State& before) {
    Tensor h = product(at, before.h, d.r, false, true);
    return State{at.elementwise(
        x.dtype, {x, h}, [&](const Scalars& s, ValueRange v) { return d.activations[0](s, s.add(v[0], v[1])); })};
  });
}

/// Gates z, r, h: h' = (1 - z) g(...) + z h.
Results lowerGru(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Layer layer, readLayer(n, 3, {"Sigmoid", "Tanh"}));
  TESSERA_ASSIGN_OR_RETURN(const bool late_reset, n.flag("linear_before_reset", false));
  const int64_t size = layer.hidden;
  auto gate = [&](Emitter& at, const Tensor& x, int64_t g) { return part(at, x, 1, g * size, size); };
  auto blend = [](const Scalars& s, Value z, Value fresh, Value old) {
    return s.add(s.mul(s.sub(s.constant(1), z), fresh), s.mul(z, old));
  };
  auto late = [&](Emitter& at, const Direction& d, const Tensor& x, const State& before) {
    // All three gates in one product.
    Tensor h = product(at, before.h, d.r, false, true);
    if (n.has(3)) h = add(at, h, d.r_bias);
    const Tensor operands[] = {gate(at, x, 0), gate(at, x, 1), gate(at, x, 2), gate(at, h, 0),
                               gate(at, h, 1), gate(at, h, 2), before.h};
    return State{at.elementwise(x.dtype, operands, [&](const Scalars& s, ValueRange v) {
      Value z = d.activations[0](s, s.add(v[0], v[3]));
      Value r = d.activations[0](s, s.add(v[1], v[4]));
      return blend(s, z, d.activations[1](s, s.fma(r, v[5], v[2])), v[6]);
    })};
  };
  auto early = [&](Emitter& at, const Direction& d, const Tensor& x, const State& before) {
    // The reset gate changes the state before its product, so two products follow each other.
    Tensor zr = product(at, before.h, part(at, d.r, 0, 0, 2 * size), false, true);
    Tensor reset = at.elementwise(
        x.dtype, {gate(at, x, 1), gate(at, zr, 1), before.h},
        [&](const Scalars& s, ValueRange v) { return s.mul(d.activations[0](s, s.add(v[0], v[1])), v[2]); });
    Tensor h = product(at, reset, part(at, d.r, 0, 2 * size, size), false, true);
    const Tensor operands[] = {gate(at, x, 0), gate(at, zr, 0), gate(at, x, 2), h, before.h};
    return State{at.elementwise(x.dtype, operands, [&](const Scalars& s, ValueRange v) {
      Value z = d.activations[0](s, s.add(v[0], v[1]));
      return blend(s, z, d.activations[1](s, s.add(v[2], v[3])), v[4]);
    })};
  };
  if (late_reset) return runLayer(n, e, layer, false, late);
  return runLayer(n, e, layer, true, early);
}

/// Gates i, o, f, c: c' = f c + i g(...), h' = o h(c'); peepholes connect c to i and f, c' to o.
template <bool kQuantized>
Results lowerLstm(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(const Layer layer, readLayer(n, 4, {"Sigmoid", "Tanh", "Tanh"}, kQuantized));
  TESSERA_ASSIGN_OR_RETURN(const bool coupled, n.flag("input_forget", false));
  const int64_t size = layer.hidden;
  const bool peepholes = n.has(7);
  return runLayer(n, e, layer, true, [&](Emitter& at, const Direction& d, const Tensor& x, const State& before) {
    const Tensor sum = add(at, stateProduct(at, before.h, d), x);
    auto gate = [&](int64_t g) { return part(at, sum, 1, g * size, size); };
    std::vector<Tensor> cell = {gate(0), gate(2), gate(3), before.c};
    std::vector<Tensor> out = {gate(1), Tensor{}};
    if (peepholes) {  // stored as i, o, f
      cell.push_back(part(at, d.peepholes, 0, 0, size));
      cell.push_back(part(at, d.peepholes, 0, 2 * size, size));
      out.push_back(part(at, d.peepholes, 0, size, size));
    }
    State next;
    next.c = at.elementwise(x.dtype, cell, [&](const Scalars& s, ValueRange v) {
      Value i = d.activations[0](s, peepholes ? s.fma(v[4], v[3], v[0]) : v[0]);
      Value f = coupled ? s.sub(s.constant(1), i) : d.activations[0](s, peepholes ? s.fma(v[5], v[3], v[1]) : v[1]);
      return s.add(s.mul(f, v[3]), s.mul(i, d.activations[1](s, v[2])));
    });
    out[1] = next.c;
    next.h = at.elementwise(x.dtype, out, [&](const Scalars& s, ValueRange v) {
      Value o = d.activations[0](s, peepholes ? s.fma(v[2], v[1], v[0]) : v[0]);
      return s.mul(o, d.activations[2](s, v[1]));
    });
    return next;
  });
}

}  // namespace

std::vector<Operator> recurrentOperators() {
  return {
      {"RNN", 7, 3, 6, lowerRnn, kFloats, 4, INT_MAX, "", extentsByLowering},
      {"GRU", 7, 3, 6, lowerGru, kFloats, 4, INT_MAX, "", extentsByLowering},
      {"LSTM", 7, 3, 8, lowerLstm<false>, kFloats, 4, INT_MAX, "", extentsByLowering},
      {"DynamicQuantizeLSTM", 1, 3, 12, lowerLstm<true>, kFloats, 1, INT_MAX, kMicrosoft, extentsByLowering},
  };
}

}  // namespace tessera::compiler
