// Runs with a state. The caller passes the other inputs and outputs; the state passes its own.
#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/runtime/session.h"
#include "compiler/runtime/state.h"
#include "compiler/runtime/variants.h"

namespace tessera::compiler {
namespace {

bool isLeftOut(const tessera_const_buffer& input) { return input.data == nullptr && input.size_bytes == 0; }

RuntimeStatus notLeftOut(const char* kind, const char* name) {
  return runtimeError(TESSERA_INVALID_ARGUMENT, "%s '%.100s' belongs to the state of this run: leave it out", kind,
                      name);
}

int32_t rangeOf(const tessera_module_tensor& input, int32_t dimension) {
  return input.ranges ? input.ranges[dimension] : -1;
}

const tessera_module_buffer& resultOf(const tessera_module_variant& variant, int32_t step) {
  const tessera_module_step& of = variant.steps[step];
  return variant.buffers[of.operands[of.num_operands - 1]];
}

}  // namespace

void Session::bindStates(const tessera_module_variant& variant, Bound& bound) {
  for (int32_t s = 0; s < variant.num_states; ++s) {
    const tessera_module_state& state = variant.states[s];
    if (state.rows_step < 0) continue;
    const std::span identities(state.identity_steps, static_cast<size_t>(state.num_identity_steps));
    for (Call& call : bound.calls) {
      Role role = Role::kEither;
      if (call.step == state.rows_step) role = Role::kRows;
      if (call.step == state.concat_step) role = Role::kConcat;
      if (std::find(identities.begin(), identities.end(), call.step) != identities.end()) role = Role::kIdentity;
      if (role == Role::kEither) continue;
      call.role = role;
      call.state = s;
    }
    for (const int32_t identity : identities) {
      const int32_t allocation = resultOf(variant, identity).index;
      size_t operand = 0;
      for (int32_t step = 0; step < variant.num_steps; ++step) {
        for (int32_t i = 0; i < variant.steps[step].num_operands; ++i, ++operand) {
          const int32_t buffer = variant.steps[step].operands[i];
          if (variant.buffers[buffer].kind == TESSERA_BUFFER_ARENA && variant.buffers[buffer].index == allocation)
            bound.state_slots.push_back({operand, s, buffer});
        }
      }
    }
  }
}

void Session::applyRoles() {
  const tessera_module_variant& variant = tables();
  if (variant.num_states == 0) return;
  Bound& bound = bound_[variant_];
  for (size_t c = 0; c < bound.calls.size(); ++c) {
    const Call& call = bound.calls[c];
    if (call.role == Role::kEither) continue;
    const bool runs = (state_ != nullptr) == (call.role == Role::kRows);
    const std::span<EvaluatedGridBound> bounds(bound.grid_bounds.data() + call.first_grid_bound,
                                               static_cast<size_t>(call.num_grid_bounds));
    bound.grids[c] = runs ? boundGrid(variant.steps[call.step].phases[call.phase].grid, bounds) : 0;
    if (state_ != nullptr && call.role == Role::kConcat && call.phase == 0)
      bound.grids[c] = state_->value(static_cast<size_t>(call.state)).outer();
  }
  for (const StateSlot& slot : bound.state_slots) {
    const tessera_module_buffer& buffer = variant.buffers[slot.buffer];
    bound.operands[slot.operand] = state_ != nullptr ? state_->value(static_cast<size_t>(slot.state)).data() +
                                                           (buffer.offset - variant.allocations[buffer.index].offset)
                                                     : operandAddress(bound.arena, buffer);
  }
}

RuntimeStatus Session::run(State& state, std::span<const tessera_const_buffer> inputs,
                           std::span<const tessera_buffer> outputs, std::span<int64_t> step_ns) {
  if (running_.test_and_set(std::memory_order_acquire)) {
    return runtimeError(TESSERA_BUSY, "the session is running already; make one session per concurrent run");
  }
  const RunningGuard guard(running_);
  if (state.running().test_and_set(std::memory_order_acquire)) {
    return runtimeError(TESSERA_BUSY, "another run uses the state; make one state per stream of runs");
  }
  const RunningGuard state_guard(state.running());
  if (RuntimeStatus status = enter(state, inputs, outputs); !status.ok()) {
    for (size_t i = 0; i < state.size(); ++i) state.value(i).abandon();
    return status;
  }
  // Also when an exception leaves.
  struct InUse {
    InUse(State*& place, State& state) : place(place) { place = &state; }
    ~InUse() { place = nullptr; }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    State*& place;
  } const in_use(state_, state);
  RuntimeStatus status = execute(state_inputs_, state_outputs_, step_ns);
  if (status.ok()) status = checkRows(state);
  status.ok() ? accept(state) : abandon(state);
  return status;
}

RuntimeStatus Session::enter(State& state, std::span<const tessera_const_buffer> inputs,
                             std::span<const tessera_buffer> outputs) {
  if (RuntimeStatus status = state.fits(module_); !status.ok()) return status;
  if (inputs.size() != static_cast<size_t>(module_.num_inputs) ||
      outputs.size() != static_cast<size_t>(module_.num_outputs))
    return checkBuffers(inputs, outputs);
  state_inputs_.assign(inputs.begin(), inputs.end());
  state_outputs_.assign(outputs.begin(), outputs.end());
  for (const tessera_module_state& pair : std::span(tables().states, state.size())) {
    if (!isLeftOut(inputs[static_cast<size_t>(pair.input)]))
      return notLeftOut("input", tables().inputs[pair.input].name);
    if (const tessera_buffer& output = outputs[static_cast<size_t>(pair.output)]; output.data || output.size_bytes > 0)
      return notLeftOut("output", tables().outputs[pair.output].name);
  }
  if (RuntimeStatus status = fillSizes(state); !status.ok()) return status;
  return fillBuffers(state);
}

RuntimeStatus Session::fillSizes(const State& state) {
  const tessera_module_variant& variant = tables();
  const auto dimensions = static_cast<size_t>(variant.num_dimensions);
  state_sizes_.assign(dimensions, -1);
  size_t input = firstCount(module_, variant);
  for (size_t d = 0; d < dimensions; ++d) {
    const int64_t size = variant.dimensions[d].size;
    if (size >= 0) {
      state_sizes_[d] = size;
      continue;
    }
    const tessera_const_buffer& given = state_inputs_[input++];
    if (given.data != nullptr && given.size_bytes == sizeof(int64_t))
      std::memcpy(&state_sizes_[d], given.data, sizeof(int64_t));
  }
  for (size_t s = 0; s < state.size(); ++s) {
    const StateValue& value = state.value(s);
    const tessera_module_tensor& tensor = variant.inputs[variant.states[s].input];
    for (int32_t d = 0; d < tensor.rank; ++d) {
      const int64_t extent = value.extents()[static_cast<size_t>(d)];
      const int32_t range = rangeOf(tensor, d);
      if (extent < 0) continue;
      if (range < 0 && extent != tensor.shape[d]) {
        return runtimeError(TESSERA_INVALID_ARGUMENT,
                            "state '%.100s' has %lld along dimension %d, the chosen variant (%.200s) takes %lld",
                            tensor.name, static_cast<long long>(extent), d, describeVariant(module_, variant_).c_str(),
                            static_cast<long long>(tensor.shape[d]));
      }
      if (range < 0) continue;
      const tessera_module_dimension& dimension = variant.dimensions[range];
      if (extent > -dimension.size) {
        return runtimeError(TESSERA_INVALID_ARGUMENT,
                            "state '%.100s' is full: it has %lld of '%.100s', a run takes at most %lld; reset the "
                            "state, or compile the model with a larger range (--dim '%.100s=..%lld')",
                            tensor.name, static_cast<long long>(extent), dimension.name,
                            static_cast<long long>(-dimension.size), dimension.name,
                            static_cast<long long>(2 * extent));
      }
      int64_t& size = state_sizes_[static_cast<size_t>(range)];
      if (size >= 0 && size != extent) {
        return runtimeError(TESSERA_INVALID_ARGUMENT, "state '%.100s' has %lld of '%.100s', the run has %lld",
                            tensor.name, static_cast<long long>(extent), dimension.name, static_cast<long long>(size));
      }
      size = extent;
    }
  }
  for (size_t d = 0; d < dimensions; ++d) {
    if (state_sizes_[d] >= 0 || bound_[variant_].derived.has(static_cast<int32_t>(d))) continue;
    return runtimeError(TESSERA_INVALID_ARGUMENT, "input '%.100s' is left out, and no state says its value",
                        variant.dimensions[d].name);
  }
  if (RuntimeStatus status = bound_[variant_].derived.complete(state_sizes_); !status.ok()) return status;
  input = firstCount(module_, variant);
  for (size_t d = 0; d < dimensions; ++d) {
    if (variant.dimensions[d].size >= 0) continue;
    if (isLeftOut(state_inputs_[input])) state_inputs_[input] = {&state_sizes_[d], sizeof(int64_t)};
    ++input;
  }
  return {};
}

RuntimeStatus Session::fillBuffers(State& state) {
  const tessera_module_variant& variant = tables();
  for (size_t s = 0; s < state.size(); ++s) {
    StateValue& value = state.value(s);
    const tessera_module_state& pair = variant.states[s];
    const tessera_module_tensor &input = variant.inputs[pair.input], &output = variant.outputs[pair.output];
    if (!value.decided()) {
      std::array<int64_t, kMaxRank> extents{};
      for (int32_t d = 0; d < input.rank; ++d) {
        const int32_t range = rangeOf(input, d);
        const int64_t size = range < 0 ? input.shape[d] : state_sizes_[static_cast<size_t>(range)];
        // checkBuffers() will name the input that has it.
        if (size < 0 || size > input.shape[d]) return checkBuffers(state_inputs_, state_outputs_);
        extents[static_cast<size_t>(d)] = size;
      }
      value.decide({extents.data(), static_cast<size_t>(input.rank)});
    }
    tessera_const_buffer& in = state_inputs_[static_cast<size_t>(pair.input)];
    tessera_buffer& out = state_outputs_[static_cast<size_t>(pair.output)];
    if (appends(s)) {
      value.layOut({output.shape, static_cast<size_t>(output.rank)});
      // Steps of this run read the state where the output is. They read the input only to choose between it and a new
      // row, and choose the row.
      in = {value.unused(), static_cast<size_t>(input.size_bytes)};
      out = {value.data(), static_cast<size_t>(output.size_bytes)};
    } else {
      value.makeDense();
      in = {value.data(), static_cast<size_t>(value.sizeBytes())};
      out = {value.next(), static_cast<size_t>(output.size_bytes)};
    }
  }
  return {};
}

bool Session::staysLaidOut(size_t output) const {
  if (state_ == nullptr) return false;
  const std::span states(tables().states, state_->size());
  return std::any_of(states.begin(), states.end(), [&](const tessera_module_state& pair) {
    return static_cast<size_t>(pair.output) == output && pair.rows_step >= 0;
  });
}

int64_t Session::rowsAfter(size_t state) const {
  const tessera_module_variant& variant = tables();
  const tessera_module_state& pair = variant.states[state];
  const auto* const end = variant.extents + variant.num_extents;
  const auto* const entry = std::find_if(variant.extents, end, [&](const tessera_module_extent& each) {
    return each.output == pair.output && each.dimension == pair.growing_dim;
  });  // checkModule() guarantees that it exists
  return numberIn(entry->buffer, state_inputs_, state_outputs_);
}

void Session::copyRows(size_t state, int64_t low, int64_t high) {
  StateValue& value = state_->value(state);
  const tessera_module_buffer& rows = resultOf(tables(), tables().states[state].rows_step);
  const int64_t row = value.rowBytes(), after = rowsAfter(state);
  const int64_t most = row == 0 ? 0 : rows.size_bytes / (row * value.outer());  // rows of a part
  if (after < value.rows() || after - value.rows() > most) return;              // checkRows() fails
  const auto* const from = static_cast<const uint8_t*>(operandAddress(bound_[variant_].arena, rows));
  for (int64_t part = low; part < high; ++part) value.writeRows(part, after, from + part * most * row);
}

RuntimeStatus Session::checkRows(const State& state) const {
  const tessera_module_variant& variant = tables();
  for (size_t s = 0; s < state.size(); ++s) {
    if (!appends(s)) continue;
    const tessera_module_state& pair = variant.states[s];
    const int64_t before = state.value(s).rows(), after = rowsAfter(s);
    const int64_t most =
        variant.outputs[pair.output].shape[pair.growing_dim] - variant.inputs[pair.input].shape[pair.growing_dim];
    if (after >= before && after - before <= most) continue;
    return runtimeError(TESSERA_CORRUPT,
                        "the code computed %lld rows of state '%.100s', which had %lld, at most %lld more",
                        static_cast<long long>(after), state.value(s).name().c_str(), static_cast<long long>(before),
                        static_cast<long long>(most));
  }
  return {};
}

void Session::accept(State& state) {
  for (size_t s = 0; s < state.size(); ++s) {
    if (appends(s)) {
      state.value(s).acceptRows(rowsAfter(s));
    } else {
      state.value(s).accept(outputShape(static_cast<size_t>(tables().states[s].output)));
    }
  }
}

void Session::abandon(State& state) {
  for (size_t s = 0; s < state.size(); ++s) {
    StateValue& value = state.value(s);
    if (appends(s)) value.clearRows(value.rows(), value.capacity());
    value.abandon();
  }
}

}  // namespace tessera::compiler
