// The part of the C interface that deals with states (tessera.h).
#include <algorithm>

#include "compiler/runtime/c_interface.h"
#include "compiler/runtime/state.h"
#include "compiler/runtime/variants.h"

using tessera::compiler::guarded;
using tessera::compiler::invalidArgument;
using tessera::compiler::RunningGuard;
using tessera::compiler::RuntimeStatus;
using tessera::compiler::Session;
using tessera::compiler::State;
using tessera::compiler::StateValue;
using tessera::compiler::variantsOf;

struct tessera_state {
  std::unique_ptr<State> state;
};

namespace {

constexpr char kNull[] = "the state, or a pointer that the call needs, is null";
constexpr char kNoIndex[] = "the state's index is out of range";

/// Calls `body` with the state while no run uses it.
template <typename Body>
tessera_status alone(const tessera_state* state, Body body) {
  if (!state) return invalidArgument(kNull);
  return guarded([&]() -> RuntimeStatus {
    if (state->state->running().test_and_set(std::memory_order_acquire)) {
      return {TESSERA_BUSY, "a run uses the state"};
    }
    const RunningGuard guard(state->state->running());
    return body(*state->state);
  });
}

}  // namespace

extern "C" {

size_t tessera_artifact_num_states(const tessera_artifact* artifact) {
  return artifact ? static_cast<size_t>(artifact->loaded->module().variants[0].num_states) : 0;
}

tessera_status tessera_artifact_state(const tessera_artifact* artifact, size_t index, tessera_state_info* info) {
  if (!artifact || !info) return invalidArgument("the artifact or the place for the description is null");
  const tessera_module& module = artifact->loaded->module();
  if (index >= tessera_artifact_num_states(artifact)) return invalidArgument(kNoIndex);
  const tessera_module_state& state = module.variants[0].states[index];
  *info = {module.variants[0].inputs[state.input].name,
           static_cast<size_t>(state.input),
           static_cast<size_t>(state.output),
           state.growing_dim,
           1,
           0};
  for (const tessera_module_variant& variant : variantsOf(module)) {
    const tessera_module_state& table = variant.states[index];
    if (table.rows_step < 0) info->appends = 0;
    if (table.growing_dim >= 0)
      info->capacity = std::max(info->capacity, variant.inputs[table.input].shape[table.growing_dim]);
  }
  return TESSERA_OK;
}

tessera_status tessera_state_create(const tessera_artifact* artifact, tessera_state** state) {
  if (!artifact || !state) return invalidArgument("the artifact or the place for the state is null");
  *state = nullptr;
  return guarded([&]() -> RuntimeStatus {
    auto made = std::make_unique<tessera_state>();
    RuntimeStatus status = State::create(artifact->loaded, &made->state);
    if (status.ok()) *state = made.release();
    return status;
  });
}

void tessera_state_destroy(tessera_state* state) { delete state; }

tessera_status tessera_state_reset(tessera_state* state) {
  return alone(state, [](State& of) -> RuntimeStatus {
    of.reset();
    return {};
  });
}

tessera_status tessera_state_shape(const tessera_state* state, size_t index, int64_t* dims) {
  return alone(state, [&](const State& of) -> RuntimeStatus {
    if (index >= of.size()) return {TESSERA_INVALID_ARGUMENT, kNoIndex};
    const std::span<const int64_t> extents = of.value(index).extents();
    if (!extents.empty() && !dims) return {TESSERA_INVALID_ARGUMENT, kNull};
    std::copy(extents.begin(), extents.end(), dims);
    return {};
  });
}

tessera_status tessera_state_get(const tessera_state* state, size_t index, void* data, size_t size_bytes) {
  return alone(state, [&](const State& of) -> RuntimeStatus {
    if (index >= of.size()) return {TESSERA_INVALID_ARGUMENT, kNoIndex};
    const StateValue& value = of.value(index);
    if (!value.decided()) {
      return tessera::compiler::runtimeError(TESSERA_INVALID_ARGUMENT,
                                             "state '%.100s' has no shape before its first run", value.name().c_str());
    }
    if (size_bytes != static_cast<size_t>(value.sizeBytes())) {
      return tessera::compiler::runtimeError(TESSERA_INVALID_ARGUMENT, "state '%.100s' has %lld bytes, not %zu",
                                             value.name().c_str(), static_cast<long long>(value.sizeBytes()),
                                             size_bytes);
    }
    if (size_bytes > 0 && !data) return {TESSERA_INVALID_ARGUMENT, kNull};
    value.copyTo(data);
    return {};
  });
}

tessera_status tessera_state_set(tessera_state* state, size_t index, const int64_t* dims, int32_t rank,
                                 const void* data, size_t size_bytes) {
  return alone(state, [&](State& of) -> RuntimeStatus {
    if (index >= of.size()) return {TESSERA_INVALID_ARGUMENT, kNoIndex};
    if (rank < 0 || (rank > 0 && !dims)) return {TESSERA_INVALID_ARGUMENT, kNull};
    return of.set(index, {dims, static_cast<size_t>(rank)}, data, size_bytes);
  });
}

tessera_status tessera_state_save(const tessera_state* state, const char* path) {
  if (!path) return invalidArgument(kNull);
  return alone(state, [&](const State& of) { return of.save(path); });
}

tessera_status tessera_state_load(tessera_state* state, const char* path) {
  if (!path) return invalidArgument(kNull);
  return alone(state, [&](State& of) { return of.load(path); });
}

tessera_status tessera_session_run_state(tessera_session* session, tessera_state* state,
                                         const tessera_const_buffer* inputs, size_t num_inputs,
                                         const tessera_buffer* outputs, size_t num_outputs) {
  if (!session || !state || (num_inputs && !inputs) || (num_outputs && !outputs)) {
    return invalidArgument("the session, the state or a list of buffers is null");
  }
  return guarded([&] {
    std::shared_ptr<Session> current = session->current();
    RuntimeStatus status = current->run(*state->state, {inputs, num_inputs}, {outputs, num_outputs}, {});
    session->hasRun(std::move(current));
    return status;
  });
}

}  // extern "C"
