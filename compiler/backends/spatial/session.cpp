#include "compiler/backends/spatial/session.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/backends/plan_session/buffer_bytes.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// Memory for `bytes` bytes, aligned to 8.
std::vector<uint64_t> alignedBytes(size_t bytes) { return std::vector<uint64_t>((bytes + 7) / 8); }

uint8_t* bytesAt(std::vector<uint64_t>& memory) { return reinterpret_cast<uint8_t*>(memory.data()); }

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedArtifact>> SimulatedArtifact::open(ArtifactFile file, bool verify_weights) {
  std::unique_ptr<SimulatedArtifact> artifact(new SimulatedArtifact(std::move(file)));
  TESSERA_RETURN_IF_ERROR(artifact->readMessage(kKernelsEntry, artifact->program_));
  TESSERA_RETURN_IF_ERROR(artifact->readPlan(verify_weights));
  TESSERA_RETURN_IF_ERROR(artifact->checkKernels(artifact->program_.kernels()));
  return artifact;
}

SimulatedSession::SimulatedSession(const SimulatedArtifact& artifact, size_t variant)
    : PlanSession(artifact, variant, hostLoopMemory()), artifact_(artifact) {}

absl::StatusOr<std::unique_ptr<SimulatedSession>> SimulatedSession::create(const SimulatedArtifact& artifact,
                                                                           size_t variant) {
  TESSERA_RETURN_IF_ERROR(checkVariant(artifact, variant));
  std::unique_ptr<SimulatedSession> session(new SimulatedSession(artifact, variant));
  TESSERA_RETURN_IF_ERROR(session->load());
  return session;
}

absl::Status SimulatedSession::load() {
  for (const v1::Step& step : plan().steps()) {
    std::unique_ptr<LoadedKernel>& kernel = kernels_[step.workload()];
    if (kernel) continue;
    TESSERA_ASSIGN_OR_RETURN(
        kernel, LoadedKernel::load(artifact_.program().kernels(step.workload()), artifact_.plan().target()));
  }
  Addresses addresses;
  try {
    arena_ = alignedBytes(static_cast<size_t>(plan().arena_bytes()));
    for (int i = 0; i < plan().inputs_size(); ++i)
      inputs_.push_back(alignedBytes(static_cast<size_t>(table().inputs[i].size_bytes)));
    for (int i = 0; i < plan().outputs_size(); ++i)
      outputs_.push_back(alignedBytes(static_cast<size_t>(table().outputs[i].size_bytes)));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("not enough memory for the run's ", plan().arena_bytes(), " bytes of intermediates"));
  }
  addresses.arena = bytesAt(arena_);
  // Kernels read weights only; load() of the kernel rejects nests that write arguments.
  addresses.weights = const_cast<uint8_t*>(artifact_.weights().data());
  for (std::vector<uint64_t>& input : inputs_) addresses.inputs.push_back(bytesAt(input));
  for (std::vector<uint64_t>& output : outputs_) addresses.outputs.push_back(bytesAt(output));
  bind(addresses);
  return absl::OkStatus();
}

absl::Status SimulatedSession::runStep(size_t index) {
  const v1::Step& step = plan().steps(static_cast<int>(index));
  const v1::SpatialKernel& kernel = artifact_.program().kernels(step.workload());
  std::vector<uint8_t*> operands = operandsOf(index);
  std::vector<int64_t> bytes;
  for (int i = 0; i < kernel.operands(); ++i) bytes.push_back(bufferBytes(kernel.buffers(i)));
  // Results in the memory of arguments are computed elsewhere and copied.
  struct Private {
    uint8_t* result = nullptr;
    size_t operand = 0, offset = 0;  // in private_results_
  };
  std::vector<Private> privates;
  size_t total = 0;
  for (const size_t r : resultsOverArguments(operands, bytes, static_cast<size_t>(kernel.results()))) {
    privates.push_back({.result = operands[r], .operand = r, .offset = total});
    total += static_cast<size_t>((bytes[r] + 7) / 8 * 8);
  }
  if (private_results_.size() < total / 8) private_results_.resize(total / 8);
  for (const Private& each : privates) operands[each.operand] = bytesAt(private_results_) + each.offset;
  if (absl::Status status = kernels_.at(step.workload())->run(operands); !status.ok())
    return {status.code(), absl::StrCat("step '", step.name(), "': ", status.message())};
  for (const Private& each : privates)
    std::memcpy(each.result, operands[each.operand], static_cast<size_t>(bytes[each.operand]));
  return absl::OkStatus();
}

absl::Status SimulatedSession::run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string_view> given, completedInputs(inputs));
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i].empty()) std::memcpy(bytesAt(inputs_[i]), given[i].data(), given[i].size());
  TESSERA_RETURN_IF_ERROR(runSteps());
  outputs.resize(outputs_.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i].assign(reinterpret_cast<const char*>(outputs_[i].data()),
                      static_cast<size_t>(table().outputs[i].size_bytes));
  return finishOutputs(outputs);
}

absl::StatusOr<std::vector<KernelCost>> SimulatedSession::costs() {
  const v1::Target& target = artifact_.plan().target();
  std::vector<KernelCost> costs;
  SharedCache cache(target);
  for (int s = 0; s < plan().steps_size(); ++s) {
    const v1::Step& step = plan().steps(s);
    LoadedKernel& kernel = *kernels_.at(step.workload());
    const std::vector<int64_t> tensors(step.operands().begin(), step.operands().end());
    // What a step of a loop finds differs from one iteration to the next; it counts as nothing.
    const bool once = runs()[static_cast<size_t>(s)] == 1;
    if (!once) cache = SharedCache(target);
    absl::StatusOr<KernelCost> cost = once ? kernel.cost(cache, tensors) : kernel.cost();
    if (!cost.ok())
      return absl::Status(cost.status().code(), absl::StrCat("step '", step.name(), "': ", cost.status().message()));
    costs.push_back(*std::move(cost));
  }
  return costs;
}

absl::StatusOr<v1::SimulatedRun> SimulatedSession::cost() {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<KernelCost> all, costs());
  PlanCost total(artifact_.plan().target());
  for (int s = 0; s < plan().steps_size(); ++s) {
    const v1::Step& step = plan().steps(s);
    total.add(step.name(), artifact_.program().kernels(step.workload()).symbol(), all[static_cast<size_t>(s)],
              runs()[static_cast<size_t>(s)]);
  }
  return std::move(total).take();
}

absl::StatusOr<std::vector<RunEvent>> SimulatedSession::events() {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<KernelCost> costs, this->costs());
  std::vector<RunEvent> all;
  double start = 0;
  for (int s = 0; s < plan().steps_size(); ++s) {
    const KernelCost& cost = costs[static_cast<size_t>(s)];
    for (RunEvent& event : eventsOf(plan().steps(s).name(), cost, runs()[static_cast<size_t>(s)], start))
      all.push_back(std::move(event));
    start += cost.cycles() * static_cast<double>(runs()[static_cast<size_t>(s)]);
  }
  return all;
}

}  // namespace tessera::compiler::simulator
