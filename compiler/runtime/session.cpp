#include "compiler/runtime/session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>

#include "compiler/runtime/fixed_inputs.h"
#include "compiler/runtime/output_extents.h"
#include "compiler/runtime/variants.h"

namespace tessera::compiler {
namespace {

constexpr size_t kPage = 4096;

int64_t nowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

bool overlap(const void* a, size_t a_size, const void* b, size_t b_size) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  // Compares distances, since the end of a buffer could overflow.
  return a_size > 0 && b_size > 0 && (x < y ? y - x < a_size : x - y < b_size);
}

RuntimeStatus sizeError(const tessera_module& module, size_t variant, const char* kind, size_t index,
                        const tessera_module_tensor& tensor, size_t size) {
  std::string which;
  if (module.num_variants > 1) which = " in the chosen variant (" + describeVariant(module, variant) + ")";
  return runtimeError(TESSERA_INVALID_ARGUMENT, "%s %zu ('%.100s') takes %lld bytes%.200s, %zu were given", kind, index,
                      tensor.name, static_cast<long long>(tensor.size_bytes), which.c_str(), size);
}

int64_t valueOf(const tessera_const_buffer& scalar) {
  int64_t value = 0;
  std::memcpy(&value, scalar.data, sizeof(value));
  return value;
}

const tessera_module_refused_sizes* refusing(const tessera_module_variant& variant, int32_t dimension, int64_t size) {
  for (int32_t i = 0; i < variant.num_refused_sizes; ++i) {
    const tessera_module_refused_sizes& sizes = variant.refused_sizes[i];
    if (sizes.dimension != dimension || size < sizes.first || size > sizes.last) continue;
    if (sizes.multiple == 0 || size % sizes.multiple != 0) return &sizes;
  }
  return nullptr;
}

/// Checks that the model accepts this size of a range.
RuntimeStatus checkSize(const tessera_module_variant& variant, int32_t dimension, int64_t size) {
  const tessera_module_refused_sizes* refused = refusing(variant, dimension, size);
  if (!refused) return {};
  const tessera_module_dimension& range = variant.dimensions[dimension];
  int64_t next = size;
  // Skips one refused interval, or to the next multiple, until a size is accepted or the range ends.
  while (const auto* sizes = refusing(variant, dimension, next))
    next = sizes->multiple == 0 ? sizes->last + 1 : (next / sizes->multiple + 1) * sizes->multiple;
  std::string fix;
  if (next <= -range.size) fix = "; the next size that works is " + std::to_string(next);
  return runtimeError(TESSERA_INVALID_ARGUMENT,
                      "dimension '%.100s' is %lld, for which the model does not work: %.500s%s", range.name,
                      static_cast<long long>(size), refused->reason, fix.c_str());
}

/// Checks everything except the size.
RuntimeStatus checkBuffer(const char* kind, size_t index, const tessera_module_tensor& tensor, const void* data,
                          size_t size) {
  if (size > 0 && !data) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "%s %zu ('%.100s') is null", kind, index, tensor.name);
  }
  if (reinterpret_cast<uintptr_t>(data) % tessera_dtype_size(tensor.dtype) != 0) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "%s %zu ('%.100s') is not aligned to its element of %zu bytes", kind,
                        index, tensor.name, tessera_dtype_size(tensor.dtype));
  }
  return {};
}

}  // namespace

RuntimeStatus Session::create(std::shared_ptr<const LoadedArtifact> artifact, int threads,
                              std::unique_ptr<Session>* session) {
  if (RuntimeStatus status = artifact->prepared.make(artifact, threads); !status.ok()) return status;
  const tessera_module& module = artifact->module();
  return create(std::move(artifact), module, threads, session);
}

RuntimeStatus Session::create(std::shared_ptr<const LoadedArtifact> artifact, const tessera_module& module, int threads,
                              std::unique_ptr<Session>* session) {
  std::unique_ptr<Session> made(new Session(std::move(artifact), module, threads));
  if (RuntimeStatus status = made->prepare(); !status.ok()) return status;
  *session = std::move(made);
  return {};
}

Session::Session(std::shared_ptr<const LoadedArtifact> artifact, const tessera_module& module, int threads)
    : artifact_(std::move(artifact)), module_(module), team_(threads) {}

RuntimeStatus Session::prepare() {
  int64_t arena_bytes = 0, reserved = 0, dense = 0;  // the arena of variants that always use all of it
  for (const tessera_module_variant& variant : variantsOf(module_)) {
    // Variants with allocations get their own layout for the sizes of each run.
    if (variant.num_allocations == 0) arena_bytes = std::max(arena_bytes, variant.arena_bytes);
    bound_.push_back(bind(variant));
    reserved = std::max(reserved, bound_.back().arena.reservedBytes());
    dense = std::max(dense, bound_.back().dense.bytes());
  }
  // Whole pages, so that no two threads write to one cache line. No overflow: checkModule() bounds the sizes.
  scratch_stride_ = (static_cast<size_t>(module_.scratch_bytes) + kPage - 1) / kPage * kPage;
  if (!arena_.reserve(static_cast<size_t>(reserved)) || !dense_.reserve(static_cast<size_t>(dense)) ||
      !workspace_.allocate(static_cast<size_t>(module_.workspace_bytes)) ||
      !scratch_.allocate(scratch_stride_ * static_cast<size_t>(team_.threads()))) {
    return runtimeError(TESSERA_OUT_OF_MEMORY,
                        "no memory for a session: arena %lld, workspace %lld, scratch %zu bytes for each of %d threads",
                        static_cast<long long>(reserved), static_cast<long long>(module_.workspace_bytes),
                        scratch_stride_, team_.threads());
  }
  arena_.use(static_cast<size_t>(arena_bytes));
  if (module_.num_fixed_inputs > 0) completed_.resize(static_cast<size_t>(module_.num_inputs));
  const auto variants = variantsOf(module_);
  for (size_t v = 0; v < variants.size(); ++v) placeOperands(variants[v], bound_[v]);
  return {};
}

Session::Bound Session::bind(const tessera_module_variant& variant) const {
  Bound bound(variant, module_.num_inputs);
  for (int32_t s = 0; s < variant.num_steps; ++s) {
    const tessera_module_step& step = variant.steps[s];
    for (int32_t p = 0; p < step.num_phases; ++p) {
      // The step's table has the grid bounds of all phases; a call gets the bounds of its own phase.
      const size_t first_grid_bound = bound.grid_bounds.size();
      for (int32_t c = 0; c < step.num_grid_bounds; ++c) {
        const tessera_module_grid_bound& grid_bound = step.grid_bounds[c];
        if (grid_bound.phase == p)
          bound.grid_bounds.push_back({grid_bound.count, grid_bound.inner, grid_bound.count, 1});
      }
      bound.calls.push_back({step.phases[p].fn, bound.operands.size(), s, p, p + 1 == step.num_phases,
                             static_cast<int32_t>(bound.grid_bounds.size() - first_grid_bound), first_grid_bound});
      bound.grids.push_back(step.phases[p].grid);
    }
    for (int32_t i = 0; i < step.num_operands; ++i) {
      const tessera_module_buffer& buffer = variant.buffers[step.operands[i]];
      if (buffer.kind == TESSERA_BUFFER_INPUT || buffer.kind == TESSERA_BUFFER_OUTPUT) {
        bound.caller_slots.push_back({bound.operands.size(), buffer.index, buffer.kind == TESSERA_BUFFER_OUTPUT});
      }
      bound.operands.push_back(nullptr);
    }
  }
  bindStates(variant, bound);
  const auto ranges = module_.num_inputs - static_cast<int32_t>(firstCount(module_, variant));
  bound.given.resize(static_cast<size_t>(module_.num_inputs));
  bound.counts.resize(static_cast<size_t>(ranges));
  if (!bound.derived.empty()) bound.sizes.resize(static_cast<size_t>(variant.num_dimensions));
  for (int32_t o = 0; o < module_.num_outputs; ++o) {
    const tessera_module_tensor& output = variant.outputs[o];
    bound.first_dimension.push_back(bound.output_shapes.size());
    bound.output_shapes.insert(bound.output_shapes.end(), output.shape, output.shape + output.rank);
  }
  return bound;
}

RuntimeStatus Session::select(size_t variant) {
  if (running_.test_and_set(std::memory_order_acquire)) {
    return runtimeError(TESSERA_BUSY, "the session is running; another variant can be chosen when it has ended");
  }
  const RunningGuard guard(running_);
  variant_ = variant;
  return {};
}

void Session::placeOperands(const tessera_module_variant& variant, Bound& bound) const {
  size_t operand = 0;
  for (int32_t s = 0; s < variant.num_steps; ++s) {
    for (int32_t i = 0; i < variant.steps[s].num_operands; ++i)
      bound.operands[operand++] = operandAddress(bound.arena, variant.buffers[variant.steps[s].operands[i]]);
  }
  if (bound.loops.empty()) return;
  for (int32_t b = 0; b < variant.num_buffers; ++b)
    bound.loops.setAddress(static_cast<size_t>(b), operandAddress(bound.arena, variant.buffers[b]));
}

/// Null for buffers of the caller and of loops.
void* Session::operandAddress(const ArenaLayout& arena, const tessera_module_buffer& buffer) const {
  if (buffer.kind == TESSERA_BUFFER_ARENA) return arena_.data() + arena.offset(buffer);
  // Kernels take all operands as pointers to mutable memory; weights are mapped read-only.
  if (buffer.kind == TESSERA_BUFFER_WEIGHT) return const_cast<uint8_t*>(artifact_->weights) + buffer.offset;
  if (buffer.kind == TESSERA_BUFFER_PREPARED)
    return const_cast<uint8_t*>(artifact_->prepared.data(buffer.index)) + buffer.offset;
  return nullptr;
}

RuntimeStatus Session::checkBuffers(std::span<const tessera_const_buffer> inputs,
                                    std::span<const tessera_buffer> outputs) const {
  const auto expected_inputs = static_cast<size_t>(module_.num_inputs);
  const auto expected_outputs = static_cast<size_t>(module_.num_outputs);
  if (inputs.size() != expected_inputs || outputs.size() != expected_outputs) {
    return runtimeError(TESSERA_INVALID_ARGUMENT, "the model has %zu inputs and %zu outputs, %zu and %zu were given",
                        expected_inputs, expected_outputs, inputs.size(), outputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tessera_module_tensor& tensor = tables().inputs[i];
    if (inputs[i].size_bytes != static_cast<size_t>(tensor.size_bytes)) {
      if (tensor.ranges) continue;  // checked with the counts, below
      return sizeError(module_, variant_, "input", i, tensor, inputs[i].size_bytes);
    }
    RuntimeStatus status = checkBuffer("input", i, tensor, inputs[i].data, inputs[i].size_bytes);
    if (!status.ok()) return status;
  }
  for (int32_t f = 0; f < module_.num_fixed_inputs; ++f) {
    const tessera_module_fixed_input& fixed = module_.fixed_inputs[f];
    const auto i = static_cast<size_t>(fixed.input);
    if (inputs[i].size_bytes != static_cast<size_t>(tables().inputs[i].size_bytes)) {
      return sizeError(module_, variant_, "input", i, tables().inputs[i], inputs[i].size_bytes);
    }
    if (fixed.may_differ != 0) continue;
    RuntimeStatus status =
        checkFixedInput(tables().inputs[fixed.input], fixed, inputs[static_cast<size_t>(fixed.input)].data);
    if (!status.ok()) return status;
  }
  // Counts before dense inputs, whose expected sizes depend on them.
  size_t count_input = firstCount(module_, tables());
  for (int32_t d = 0; d < tables().num_dimensions; ++d) {
    const tessera_module_dimension& dimension = tables().dimensions[d];
    if (dimension.size >= 0) continue;
    const int64_t count = valueOf(inputs[count_input++]);
    if (count < 0 || count > -dimension.size ||
        (dimension.size == -1 && count != 1 && !bound_[variant_].derived.has(d))) {
      return runtimeError(TESSERA_INVALID_ARGUMENT,
                          "input '%.100s' says that %lld count, the chosen variant takes 0 to %lld", dimension.name,
                          static_cast<long long>(count), static_cast<long long>(-dimension.size));
    }
    if (RuntimeStatus status = checkSize(tables(), d, count); !status.ok()) return status;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size_bytes == static_cast<size_t>(tables().inputs[i].size_bytes)) continue;
    if (RuntimeStatus status = checkDense(inputs, i); !status.ok()) return status;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const tessera_buffer& output = outputs[o];
    const tessera_module_tensor& tensor = tables().outputs[o];
    if (output.size_bytes != static_cast<size_t>(tensor.size_bytes)) {
      return sizeError(module_, variant_, "output", o, tensor, output.size_bytes);
    }
    RuntimeStatus status = checkBuffer("output", o, tensor, output.data, output.size_bytes);
    if (!status.ok()) return status;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (overlap(output.data, output.size_bytes, inputs[i].data, inputs[i].size_bytes)) {
        return runtimeError(TESSERA_INVALID_ARGUMENT, "output %zu overlaps input %zu", o, i);
      }
    }
    // Kernels may write an output before all inputs are read, so neither inputs nor outputs may overlap it.
    for (size_t i = 0; i < o; ++i) {
      if (overlap(output.data, output.size_bytes, outputs[i].data, outputs[i].size_bytes)) {
        return runtimeError(TESSERA_INVALID_ARGUMENT, "output %zu overlaps output %zu", o, i);
      }
    }
  }
  return {};
}

std::span<const int64_t> Session::extentsOf(std::span<const tessera_const_buffer> inputs, size_t input,
                                            std::span<int64_t> extents) const {
  const tessera_module_variant& variant = tables();
  const tessera_module_tensor& tensor = variant.inputs[input];
  const auto rank = static_cast<size_t>(tensor.rank);
  // Starts with the bounds, then replaces each dimension that belongs to a range.
  std::copy(tensor.shape, tensor.shape + tensor.rank, extents.begin());
  size_t count = firstCount(module_, variant);
  for (int32_t dimension = 0; dimension < variant.num_dimensions; ++dimension) {
    if (variant.dimensions[dimension].size >= 0) continue;
    for (size_t d = 0; d < rank; ++d)
      if (tensor.ranges[d] == dimension) extents[d] = valueOf(inputs[count]);
    ++count;
  }
  return extents.first(rank);
}

/// Checks an input with ranges that does not have the size of the variant: it must have the size of the run.
RuntimeStatus Session::checkDense(std::span<const tessera_const_buffer> inputs, size_t input) const {
  const tessera_module_tensor& tensor = tables().inputs[input];
  std::array<int64_t, kMaxRank> extents{};
  auto bytes = static_cast<int64_t>(tessera_dtype_size(tensor.dtype));
  for (const int64_t extent : extentsOf(inputs, input, extents)) bytes *= extent;  // at most the variant's
  if (inputs[input].size_bytes == static_cast<size_t>(bytes)) {
    return checkBuffer("input", input, tensor, inputs[input].data, inputs[input].size_bytes);
  }
  return runtimeError(TESSERA_INVALID_ARGUMENT,
                      "input %zu ('%.100s') takes %lld bytes, those of the sizes that the run has, or %lld, those of "
                      "the variant; %zu were given",
                      input, tensor.name, static_cast<long long>(bytes), static_cast<long long>(tensor.size_bytes),
                      inputs[input].size_bytes);
}

RuntimeStatus Session::run(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                           std::span<int64_t> step_ns) {
  if (running_.test_and_set(std::memory_order_acquire)) {
    return runtimeError(TESSERA_BUSY, "the session is running already; make one session per concurrent run");
  }
  const RunningGuard guard(running_);
  return execute(inputs, outputs, step_ns);
}

RuntimeStatus Session::execute(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs,
                               std::span<int64_t> step_ns) {
  inputs = complete(inputs);
  if (RuntimeStatus status = checkBuffers(inputs, outputs); !status.ok()) return status;
  if (RuntimeStatus status = checkDerivedDims(inputs); !status.ok()) return status;
  const Bound& bound = bound_[variant_];
  fitToSizes(inputs);
  bindCaller(inputs, outputs);
  applyRoles();
  step_ns_ = step_ns;
  std::fill(step_ns.begin(), step_ns.end(), 0);
  const size_t first = firstCall();
  if (!step_ns.empty()) step_begin_ns_ = nowNs();
  team_.run({bound.grids,
             [](void* session, size_t phase, int thread, int64_t low, int64_t high) {
               static_cast<Session*>(session)->call(phase, thread, low, high);
             },
             // Without loops and profile, calls follow in order, and the team needs no callback between them.
             step_ns.empty() && bound.loops.empty()
                 ? nullptr
                 : [](void* session, size_t phase) { return static_cast<Session*>(session)->next(phase); },
             this, first});
  return finish(inputs, outputs);
}

std::span<const tessera_const_buffer> Session::complete(std::span<const tessera_const_buffer> inputs) {
  if (completed_.empty() || inputs.size() != completed_.size()) return inputs;
  std::copy(inputs.begin(), inputs.end(), completed_.begin());
  for (int32_t f = 0; f < module_.num_fixed_inputs; ++f) {
    const tessera_module_fixed_input& known = module_.fixed_inputs[f];
    tessera_const_buffer& input = completed_[static_cast<size_t>(known.input)];
    // An omitted fixed input takes the value that was fixed when compiling.
    if (input.data == nullptr && input.size_bytes == 0) input = {known.data, static_cast<size_t>(known.size_bytes)};
  }
  return completed_;
}

void Session::bindCaller(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs) {
  Bound& bound = bound_[variant_];
  for (size_t i = 0; i < inputs.size(); ++i) {
    bound.given[i] = const_cast<void*>(inputs[i].data);
    const tessera_module_tensor& tensor = tables().inputs[i];
    if (inputs[i].size_bytes == static_cast<size_t>(tensor.size_bytes)) continue;
    std::array<int64_t, kMaxRank> extents{};
    bound.given[i] = bound.dense.place(dense_.data(), i, inputs[i].data, extentsOf(inputs, i, extents));
  }
  for (const CallerSlot& slot : bound.caller_slots) {
    const auto tensor = static_cast<size_t>(slot.tensor);
    bound.operands[slot.operand] = slot.output ? outputs[tensor].data : bound.given[tensor];
  }
  if (bound.loops.empty()) return;
  for (int32_t b = 0; b < tables().num_buffers; ++b) {
    const tessera_module_buffer& buffer = tables().buffers[b];
    const auto index = static_cast<size_t>(buffer.index);
    if (buffer.kind == TESSERA_BUFFER_INPUT) bound.loops.setAddress(static_cast<size_t>(b), bound.given[index]);
    if (buffer.kind == TESSERA_BUFFER_OUTPUT) bound.loops.setAddress(static_cast<size_t>(b), outputs[index].data);
  }
}

RuntimeStatus Session::checkDerivedDims(std::span<const tessera_const_buffer> inputs) {
  Bound& bound = bound_[variant_];
  if (bound.derived.empty()) return {};
  size_t input = firstCount(module_, tables());
  for (size_t d = 0; d < bound.sizes.size(); ++d) {
    const int64_t size = tables().dimensions[d].size;
    bound.sizes[d] = size < 0 ? valueOf(inputs[input++]) : size;
  }
  return bound.derived.check(bound.sizes, {tables().inputs, inputs.size()});
}

void Session::fitToSizes(std::span<const tessera_const_buffer> inputs) {
  Bound& bound = bound_[variant_];
  if (bound.counts.empty()) return;
  bool changed = !bound.layout_is_current;
  size_t input = firstCount(module_, tables());
  for (int64_t& known : bound.counts) {
    const int64_t count = valueOf(inputs[input++]);
    changed |= count != known;
    known = count;
  }
  if (!changed) return;
  // If fit() throws, the next run computes the layout again.
  bound.layout_is_current = false;  // until a layout has been chosen
  boundGrids();
  if (bound.arena.fit(bound.grid_bounds)) placeOperands(tables(), bound);
  arena_.use(static_cast<size_t>(bound.arena.bytes()));
  bound.layout_is_current = true;
}

void Session::boundGrids() {
  Bound& bound = bound_[variant_];
  const tessera_module_variant& variant = tables();
  for (size_t c = 0; c < bound.calls.size(); ++c) {
    const Call& call = bound.calls[c];
    if (call.num_grid_bounds == 0) continue;
    const tessera_module_step& step = variant.steps[call.step];
    const std::span<EvaluatedGridBound> grid_bounds(bound.grid_bounds.data() + call.first_grid_bound,
                                                    static_cast<size_t>(call.num_grid_bounds));
    size_t next = 0;
    for (int32_t i = 0; i < step.num_grid_bounds; ++i) {
      const tessera_module_grid_bound& grid_bound = step.grid_bounds[i];
      if (grid_bound.phase != call.phase) continue;
      size_t range = 0;
      int64_t rows = 1;
      for (int32_t d = 0; d < variant.num_dimensions; ++d) {
        // `ranges` is a bit set of dimensions; the rows are the product of their sizes.
        if (d < 32 && (grid_bound.ranges >> d & 1) != 0) rows *= bound.counts[range];
        range += variant.dimensions[d].size < 0 ? 1 : 0;
      }
      grid_bounds[next++].needed = neededSteps(grid_bound, rows);
    }
    bound.grids[c] = boundGrid(step.phases[call.phase].grid, grid_bounds);
  }
}

double Session::workDone() const {
  const Bound& bound = bound_[variant_];
  double all = 0, done = 0;
  for (size_t c = 0; c < bound.calls.size(); ++c) {
    const Call& call = bound.calls[c];
    if (call.role != Role::kEither) continue;  // copies, of which each run skips some
    const tessera_module_step& step = tables().steps[call.step];
    const double phase = static_cast<double>(std::max<int64_t>(step.flops, 1)) / step.num_phases;
    all += phase;
    done += phase * static_cast<double>(bound.grids[c]) / static_cast<double>(step.phases[call.phase].grid);
  }
  return all > 0 ? done / all : 1;
}

int64_t Session::numberIn(int32_t position, std::span<const tessera_const_buffer> inputs,
                          std::span<const tessera_buffer> outputs) const {
  const tessera_module_buffer& buffer = tables().buffers[position];
  const auto index = static_cast<size_t>(buffer.index);
  const void* at = buffer.kind == TESSERA_BUFFER_INPUT    ? inputs[index].data
                   : buffer.kind == TESSERA_BUFFER_OUTPUT ? outputs[index].data
                                                          : operandAddress(bound_[variant_].arena, buffer);
  int64_t number = 0;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

RuntimeStatus Session::faultOf(std::span<const tessera_const_buffer> inputs,
                               std::span<const tessera_buffer> outputs) const {
  const tessera_module_variant& variant = tables();
  if (variant.num_fault_messages == 0) return {};
  const int64_t fault = numberIn(variant.fault_buffer, inputs, outputs);
  if (fault == 0) return {};
  if (fault < 0 || fault > variant.num_fault_messages) {
    return runtimeError(TESSERA_CORRUPT, "the code computed %lld as the number of the run's error, at most %d",
                        static_cast<long long>(fault), variant.num_fault_messages);
  }
  return {TESSERA_RUN_FAULT, variant.fault_messages[fault - 1]};
}

RuntimeStatus Session::finish(std::span<const tessera_const_buffer> inputs, std::span<const tessera_buffer> outputs) {
  const RuntimeStatus fault = faultOf(inputs, outputs);
  const RuntimeStatus extents = applyExtents(inputs, outputs);
  return fault.ok() ? extents : fault;
}

RuntimeStatus Session::applyExtents(std::span<const tessera_const_buffer> inputs,
                                    std::span<const tessera_buffer> outputs) {
  const tessera_module_variant& variant = tables();
  Bound& bound = bound_[variant_];
  for (int32_t i = 0; i < variant.num_extents; ++i) {
    const tessera_module_extent& entry = variant.extents[i];
    const int64_t extent = numberIn(entry.buffer, inputs, outputs);
    const tessera_module_tensor& output = variant.outputs[entry.output];
    const int64_t most = output.shape[entry.dimension];
    // The code is not trusted: an extent beyond its bound would lead packDense() out of the output.
    if (extent < 0 || extent > most) {
      return runtimeError(TESSERA_CORRUPT, "the code computed %lld for dimension %d of output '%.100s', at most %lld",
                          static_cast<long long>(extent), entry.dimension, output.name, static_cast<long long>(most));
    }
    const size_t first = bound.first_dimension[static_cast<size_t>(entry.output)];
    bound.output_shapes[first + static_cast<size_t>(entry.dimension)] = extent;
  }
  for (int32_t i = 0; i < variant.num_extents; ++i) {
    const auto o = static_cast<size_t>(variant.extents[i].output);
    if (i > 0 && variant.extents[i - 1].output == variant.extents[i].output) continue;
    if (staysLaidOut(o)) continue;
    const tessera_module_tensor& output = variant.outputs[o];
    packDense(outputs[o].data, tessera_dtype_size(output.dtype), {output.shape, static_cast<size_t>(output.rank)},
              outputShape(o));
  }
  return {};
}

RunningKernel Session::kernelOf(size_t call, int64_t low, int64_t high) const {
  const Call& phase = bound_[variant_].calls[call];
  const tessera_module_step& step = tables().steps[phase.step];
  return {step.name, step.symbol, phase.step, phase.phase, low, high};
}

void Session::call(size_t call, int thread, int64_t low, int64_t high) {
  const Bound& bound = bound_[variant_];
  uint8_t* const scratch = scratch_.data() ? scratch_.data() + scratch_stride_ * static_cast<size_t>(thread) : nullptr;
  const Call& phase = bound.calls[call];
  if (state_ != nullptr && phase.role == Role::kConcat) return copyRows(static_cast<size_t>(phase.state), low, high);
  forEachRun(gridBoundsOf(phase), low, high, [&](int64_t lo, int64_t hi) {
    const RunningKernel kernel = kernelOf(call, lo, hi);
    const RunningKernelScope running(kernel);
    phase.fn(bound.operands.data() + phase.first_operand, lo, hi, workspace_.data(), scratch);
  });
}

void Session::recordTime(size_t call) {
  const Call& phase = bound_[variant_].calls[call];
  if (!phase.ends_step) return;
  const int64_t now = nowNs();
  step_ns_[static_cast<size_t>(phase.step)] += now - step_begin_ns_;
  step_begin_ns_ = now;
}

}  // namespace tessera::compiler
