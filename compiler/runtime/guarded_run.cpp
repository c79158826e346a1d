// Session::runGuarded: a run that finds kernels that leave their memory.
#include <algorithm>
#include <cstring>

#include "compiler/runtime/session.h"

namespace tessera::compiler {
namespace {

/// Different bytes for the two ends: results that depend on poison then differ between the two runs.
uint8_t poisonAt(GuardedMemory::End end) { return end == GuardedMemory::End::kFront ? GuardedMemory::kPoison : 0x7e; }

/// The guaranteed alignment of an operand: a caller's buffer is aligned to its element, all others as the plan places
/// them.
size_t alignmentOf(const tessera_module_variant& variant, const tessera_module_buffer& buffer) {
  if (buffer.kind == TESSERA_BUFFER_INPUT) return tessera_dtype_size(variant.inputs[buffer.index].dtype);
  if (buffer.kind == TESSERA_BUFFER_OUTPUT) return tessera_dtype_size(variant.outputs[buffer.index].dtype);
  // Parts of a scanned buffer follow each other without padding.
  if (buffer.kind == TESSERA_BUFFER_LOOP && buffer.size_bytes > 0)
    return std::min<size_t>(TESSERA_BUFFER_ALIGNMENT, static_cast<size_t>(buffer.size_bytes & -buffer.size_bytes));
  return TESSERA_BUFFER_ALIGNMENT;
}

/// Memory of one step: its operands, then its workspace, then the scratch of each thread.
class StepMemory {
 public:
  StepMemory(const tessera_module_step& step, int threads)
      : step_(step), memory_(static_cast<size_t>(step.num_operands) + 1 + static_cast<size_t>(threads)) {}

  RuntimeStatus place(size_t index, int64_t bytes, size_t alignment, GuardedMemory::End end) {
    if (!memory_[index].allocate(static_cast<size_t>(bytes), alignment)) {
      return runtimeError(TESSERA_OUT_OF_MEMORY, "no guarded memory for %lld bytes of step '%.200s'",
                          static_cast<long long>(bytes), step_.name);
    }
    memory_[index].place(end, poisonAt(end));
    return {};
  }
  GuardedMemory& operator[](size_t index) { return memory_[index]; }
  size_t workspace() const { return static_cast<size_t>(step_.num_operands); }
  size_t scratch(int thread) const { return workspace() + 1 + static_cast<size_t>(thread); }
  size_t size() const { return memory_.size(); }

  RuntimeStatus checkEdges(int32_t step_index) const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const ptrdiff_t at = memory_[i].findOutOfBoundsWrite();
      if (at == 0) continue;
      char where[48] = "the workspace";
      if (i < workspace()) std::snprintf(where, sizeof(where), "operand %zu", i);
      if (i > workspace()) std::snprintf(where, sizeof(where), "the scratch of thread %zu", i - workspace() - 1);
      return runtimeError(TESSERA_OUT_OF_BOUNDS, "kernel %.200s (step %d: %.400s) wrote %td bytes %s %s of %zu bytes",
                          step_.symbol, step_index, step_.name, at < 0 ? -at : at, at < 0 ? "before" : "behind", where,
                          memory_[i].size());
    }
    return {};
  }

 private:
  const tessera_module_step& step_;
  std::vector<GuardedMemory> memory_;
};

}  // namespace

RuntimeStatus Session::runGuarded(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                                  GuardedMemory::End end) {
  if (running_.test_and_set(std::memory_order_acquire)) {
    return runtimeError(TESSERA_BUSY, "the session is running already; make one session per concurrent run");
  }
  const RunningGuard guard(running_);
  inputs = complete(inputs);
  if (RuntimeStatus status = checkBuffers(inputs, outputs); !status.ok()) return status;
  if (RuntimeStatus status = checkDerivedDims(inputs); !status.ok()) return status;
  fitToSizes(inputs);
  bindCaller(inputs, outputs);
  applyRoles();
  const Bound& bound = bound_[variant_];
  if (bound.arena.bytes() > 0) {
    std::memset(arena_.data(), poisonAt(end), static_cast<size_t>(bound.arena.bytes()));
  }
  step_ns_ = {};
  for (size_t call = firstCall(); call < bound.calls.size();) {
    if (RuntimeStatus status = runGuardedStep(call, end); !status.ok()) return status;
    call = next(call + static_cast<size_t>(tables().steps[bound.calls[call].step].num_phases) - 1);
  }
  return finish(inputs, outputs);
}

RuntimeStatus Session::runGuardedStep(size_t first_call, GuardedMemory::End end) {
  const Bound& bound = bound_[variant_];
  const Call& first = bound.calls[first_call];
  const tessera_module_step& step = tables().steps[first.step];
  const int32_t arguments = step.num_operands - step.num_results;
  const auto place_of = [&](int32_t operand) {
    return bound.operands[first.first_operand + static_cast<size_t>(operand)];
  };
  const auto grid_bounds = std::span(bound.grid_bounds).subspan(first.first_grid_bound);
  StepMemory memory(step, team_.threads());
  std::vector<void*> operands;
  for (int32_t i = 0; i < step.num_operands; ++i) {
    const tessera_module_buffer& buffer = tables().buffers[step.operands[i]];
    const auto index = static_cast<size_t>(i);
    // For an intermediate in a run of few rows, the arena has room for the bytes that the run writes only.
    const bool bounded = i >= arguments && buffer.kind == TESSERA_BUFFER_ARENA;
    const int64_t bytes = bounded ? writtenBytes(step, i, buffer.size_bytes, grid_bounds) : buffer.size_bytes;
    if (RuntimeStatus status = memory.place(index, bytes, alignmentOf(tables(), buffer), end); !status.ok()) {
      return status;
    }
    operands.push_back(memory[index].data());
    if (i >= arguments) continue;
    if (buffer.size_bytes > 0) std::memcpy(memory[index].data(), place_of(i), memory[index].size());
    memory[index].setWritable(false);
  }
  RuntimeStatus status = memory.place(memory.workspace(), step.workspace_bytes, TESSERA_BUFFER_ALIGNMENT, end);
  for (int thread = 0; thread < team_.threads() && status.ok(); ++thread) {
    status = memory.place(memory.scratch(thread), step.scratch_bytes, TESSERA_BUFFER_ALIGNMENT, end);
  }
  if (!status.ok()) return status;

  struct Context {
    const Session& session;
    size_t first_call;
    std::vector<void*>& operands;
    StepMemory& memory;
  } context{*this, first_call, operands, memory};
  const std::span<const int64_t> grids(bound.grids.data() + first_call, static_cast<size_t>(step.num_phases));
  team_.run({grids,
             [](void* given, size_t phase, int thread, int64_t low, int64_t high) {
               const Context& c = *static_cast<const Context*>(given);
               std::vector<const GuardedMemory*> parts;
               for (size_t i = 0; i <= c.memory.workspace(); ++i) parts.push_back(&c.memory[i]);
               GuardedMemory& scratch = c.memory[c.memory.scratch(thread)];
               parts.push_back(&scratch);
               const Call& call = c.session.bound_[c.session.variant_].calls[c.first_call + phase];
               forEachRun(c.session.gridBoundsOf(call), low, high, [&](int64_t lo, int64_t hi) {
                 RunningKernel kernel = c.session.kernelOf(c.first_call + phase, lo, hi);
                 kernel.operands = parts.data();
                 kernel.num_operands = static_cast<int32_t>(parts.size());
                 const RunningKernelScope running(kernel);
                 call.fn(c.operands.data(), lo, hi, c.memory[c.memory.workspace()].data(), scratch.data());
               });
             },
             nullptr, &context, 0});

  if (status = memory.checkEdges(first.step); !status.ok()) return status;
  for (int32_t i = arguments; i < step.num_operands; ++i) {
    const GuardedMemory& result = memory[static_cast<size_t>(i)];
    if (result.size() > 0) std::memcpy(place_of(i), result.data(), result.size());
  }
  return {};
}

}  // namespace tessera::compiler
