#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "compiler/runtime/arena_layout.h"
#include "compiler/runtime/dense_inputs.h"
#include "compiler/runtime/derived_dims.h"
#include "compiler/runtime/faults.h"
#include "compiler/runtime/guarded_memory.h"
#include "compiler/runtime/loop_control.h"
#include "compiler/runtime/memory_region.h"
#include "compiler/runtime/module_image.h"
#include "compiler/runtime/partial_grid.h"
#include "compiler/runtime/prepared_weights.h"
#include "compiler/runtime/status.h"
#include "compiler/runtime/worker_team.h"

namespace tessera::compiler {

/// An artifact ready to run: code and weights in memory, shared by its sessions. Immutable, except that the first
/// session computes the prepared weights.
struct LoadedArtifact {
  ArtifactFile file;
  std::unique_ptr<ModuleImage> image;
  MemoryRegion copied_weights;       ///< only when the file's own are not aligned
  const uint8_t* weights = nullptr;  ///< 64-byte aligned; null when there are none
  mutable PreparedWeights prepared;  ///< computed for the first session

  const tessera_module& module() const { return image->table(); }
};

/// Takes ownership of `file`: checks manifest and code, maps the code, finds the weights. Errors as in tessera.h.
RuntimeStatus loadArtifact(ArtifactFile file, uint32_t flags, std::shared_ptr<const LoadedArtifact>* result);

/// Clears a session's running flag at the end of a run.
class RunningGuard {
 public:
  explicit RunningGuard(std::atomic_flag& flag) : flag_(flag) {}
  ~RunningGuard() { flag_.clear(std::memory_order_release); }
  RunningGuard(const RunningGuard&) = delete;
  RunningGuard& operator=(const RunningGuard&) = delete;

 private:
  std::atomic_flag& flag_;
};

class State;  // state.h

/// The state of one run at a time: intermediates, threads and argument lists. Not thread-safe, except that run() and
/// select() detect a run in progress.
class Session {
 public:
  /// The first session of an artifact computes the prepared weights.
  static RuntimeStatus create(std::shared_ptr<const LoadedArtifact> artifact, int threads,
                              std::unique_ptr<Session>* session);
  /// For one of the artifact's modules: its own, or its preparation.
  static RuntimeStatus create(std::shared_ptr<const LoadedArtifact> artifact, const tessera_module& module, int threads,
                              std::unique_ptr<Session>* session);

  /// The selected variant, and its tables.
  size_t variant() const { return variant_; }
  const tessera_module_variant& tables() const { return module_.variants[variant_]; }
  const tessera_module& module() const { return module_; }
  /// Selects the variant of later runs, below module().num_variants. Fails with BUSY during a run.
  RuntimeStatus select(size_t variant);

  /// Extents of an output of the variant: those of the latest run, or the upper bounds before the first one. Requires a
  /// valid index.
  std::span<const int64_t> outputShape(size_t index) const {
    const Bound& bound = bound_[variant_];
    return {bound.output_shapes.data() + bound.first_dimension[index],
            static_cast<size_t>(tables().outputs[index].rank)};
  }

  /// The share of the variant's operations that the latest run computed: 1 unless row counts shortened grids.
  double workDone() const;

  /// Bytes of the arena's current layout (ArenaLayout::bytes).
  int64_t arenaBytes() const { return bound_[variant_].arena.bytes(); }

  /// Runs every step. `step_ns`, when not empty, has an element per step of the variant. Allocates only if no earlier
  /// run had sizes at least as large in all ranges: it then computes a new layout of the arena (ArenaLayout).
  RuntimeStatus run(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                    std::span<int64_t> step_ns);
  /// The same with the values of `state` for its inputs and outputs, which must be left out ({NULL, 0}), as may sizes
  /// of ranges that follow from the state. The state has its new values afterwards, or its old ones if the run fails.
  RuntimeStatus run(State& state, std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                    std::span<int64_t> step_ns);

  /// Like run(), with each operand of each step in separate guarded memory that touches `end`, as do the step's
  /// workspace and each thread's scratch. Operands are copied there before a step; arguments are read-only, results are
  /// poisoned before the step and copied back after it. Fails with OUT_OF_BOUNDS when a step wrote next to its
  /// operands; an access further outside is a fault (faults.h) of the process. Slow, and allocates.
  RuntimeStatus runGuarded(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                           GuardedMemory::End end);

 private:
  /// A position in `operands` that each run sets.
  struct CallerSlot {
    size_t operand;
    int32_t tensor;
    bool output;
  };

  /// How a run with a state executes a step (tessera_module_state).
  enum class Role : uint8_t {
    kEither,    ///< as any run
    kRows,      ///< computes new rows; a run without a state skips it
    kConcat,    ///< instead of the kernel, copies the new rows into the state
    kIdentity,  ///< is skipped
  };

  /// One phase of a step.
  struct Call {
    tessera_kernel_fn fn = nullptr;
    size_t first_operand = 0;  // of the call's step
    int32_t step = 0, phase = 0;
    bool ends_step = false;
    int32_t num_grid_bounds = 0;
    size_t first_grid_bound = 0;  // in Bound::grid_bounds
    Role role = Role::kEither;
    int32_t state = -1;  // position in the variant's states, unless kEither
  };
  /// A position in `operands` that is the memory of a state in a run that has one.
  struct StateSlot {
    size_t operand;
    int32_t state, buffer;
  };
  /// The operands and calls of one variant's steps.
  struct Bound {
    Bound(const tessera_module_variant& variant, int32_t num_inputs)
        : arena(variant), dense(variant, num_inputs), derived(variant), loops(variant) {}
    std::vector<void*> operands;  // of all steps, one after another
    std::vector<CallerSlot> caller_slots;
    std::vector<StateSlot> state_slots;
    std::vector<Call> calls;
    std::vector<int64_t> grids;                   // per call: cells that this run needs
    std::vector<EvaluatedGridBound> grid_bounds;  // of all calls, one after another
    std::vector<int64_t> output_shapes;           // of all outputs, one after another
    std::vector<size_t> first_dimension;          // per output
    std::vector<int64_t> counts;                  // per range, of the latest run
    std::vector<void*> given;                     // per input: its address in this run
    bool layout_is_current = false;               // whether grids and arena correspond to `counts`
    ArenaLayout arena;
    DenseInputs dense;
    DerivedDims derived;
    LoopControl loops;
    std::vector<int64_t> sizes;  // of all dimensions, in the latest run; only if some are derived from others
  };

  Session(std::shared_ptr<const LoadedArtifact> artifact, const tessera_module& module, int threads);
  RuntimeStatus prepare();
  /// Runs the steps on bound buffers.
  RuntimeStatus execute(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                        std::span<int64_t> step_ns);

  // Runs with a state (state_run.cpp).
  /// Marks the calls and operands that differ in runs with a state.
  static void bindStates(const tessera_module_variant& variant, Bound& bound);
  /// Sets what differs for the next run: with `state_`, or without one.
  void applyRoles();
  /// Fills in the state's buffers and the sizes that follow from it.
  RuntimeStatus enter(State& state, std::span<const tessera_const_buffer> inputs,
                      std::span<const tessera_buffer> outputs);
  RuntimeStatus fillSizes(const State& state);
  RuntimeStatus fillBuffers(State& state);
  /// Whether the state's run copies new rows only.
  bool appends(size_t state) const { return tables().states[state].rows_step >= 0; }
  /// Total number of rows of a growing state after this run, which a step has computed.
  int64_t rowsAfter(size_t state) const;
  /// Whether an output of the run is the memory of a state, where rows keep their places.
  bool staysLaidOut(size_t output) const;
  /// Copies the new rows of parts [low, high) of a state.
  void copyRows(size_t state, int64_t low, int64_t high);
  RuntimeStatus checkRows(const State& state) const;
  void accept(State& state);
  void abandon(State& state);
  /// Checks that derived ranges (DerivedDims) have the values of their formulas.
  RuntimeStatus checkDerivedDims(std::span<const tessera_const_buffer> inputs);
  /// Shortens the grids and lays out the arena for the number of rows that the run has of each range.
  void fitToSizes(std::span<const tessera_const_buffer> inputs);
  void boundGrids();
  std::span<const EvaluatedGridBound> gridBoundsOf(const Call& call) const {
    return {bound_[variant_].grid_bounds.data() + call.first_grid_bound, static_cast<size_t>(call.num_grid_bounds)};
  }
  /// Extents of an input in this run, after its counts have been checked.
  std::span<const int64_t> extentsOf(std::span<const tessera_const_buffer> inputs, size_t input,
                                     std::span<int64_t> extents) const;
  RuntimeStatus checkDense(std::span<const tessera_const_buffer> inputs, size_t input) const;
  /// The inputs, with default values for those that were left out. Does not allocate.
  std::span<const tessera_const_buffer> complete(std::span<const tessera_const_buffer> inputs);
  void bindCaller(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs);
  RuntimeStatus runGuardedStep(size_t first_call, GuardedMemory::End end);
  Bound bind(const tessera_module_variant& variant) const;
  RuntimeStatus checkBuffers(std::span<const tessera_const_buffer> inputs,
                             std::span<const tessera_buffer> outputs) const;
  /// Returns the i64 that a buffer of the variant holds after a run.
  int64_t numberIn(int32_t position, std::span<const tessera_const_buffer> inputs,
                   std::span<const tessera_buffer> outputs) const;
  /// Returns TESSERA_RUN_FAULT with the model's message if a step of the run has found an error; otherwise OK.
  RuntimeStatus faultOf(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs) const;
  /// Reads the results of the last step: the run's error and the extents of outputs.
  RuntimeStatus finish(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs);
  /// Reads the extents that steps computed, and packs the outputs that depend on them.
  RuntimeStatus applyExtents(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs);
  RunningKernel kernelOf(size_t call, int64_t low, int64_t high) const;
  void call(size_t call, int thread, int64_t low, int64_t high);
  void recordTime(size_t call);
  /// The call after one that has ended.
  size_t next(size_t call) {
    if (!step_ns_.empty()) recordTime(call);
    LoopControl& loops = bound_[variant_].loops;
    return loops.empty() ? call + 1 : loops.next(call);
  }
  /// The first call of a run with bound buffers.
  size_t firstCall() {
    Bound& bound = bound_[variant_];
    return bound.loops.empty() ? 0 : bound.loops.begin(bound.operands);
  }
  /// Sets the operands that do not change from run to run.
  void placeOperands(const tessera_module_variant& variant, Bound& bound) const;
  void* operandAddress(const ArenaLayout& arena, const tessera_module_buffer& buffer) const;

  std::shared_ptr<const LoadedArtifact> artifact_;
  const tessera_module& module_;
  MemoryRegion arena_, workspace_, scratch_;
  MemoryRegion dense_;                           // copies of inputs given in the size of the run
  size_t scratch_stride_ = 0;                    // bytes from one thread's scratch to the next
  std::vector<Bound> bound_;                     // per variant
  std::vector<tessera_const_buffer> completed_;  // inputs of a run that left some out
  size_t variant_ = 0;
  State* state_ = nullptr;                          // of the run in progress
  std::vector<tessera_const_buffer> state_inputs_;  // of a run with a state
  std::vector<tessera_buffer> state_outputs_;
  std::vector<int64_t> state_sizes_;  // of all dimensions; -1: unknown
  std::span<int64_t> step_ns_;        // of the run in progress
  int64_t step_begin_ns_ = 0;
  std::atomic_flag running_;
  WorkerTeam team_;  // declared last: its threads use the members above
};

}  // namespace tessera::compiler
