#include "compiler/backends/spatial/session.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/runtime/fixed_inputs.h"
#include "compiler/runtime/output_extents.h"
#include "proto/messages/element_size.h"
#include "proto/messages/plan_loops.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

absl::Status damaged(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the artifact is damaged: ", what));
}

absl::Status statusOf(const RuntimeStatus& status) {
  return status.ok() ? absl::OkStatus() : absl::InvalidArgumentError(status.message());
}

template <typename Message>
absl::Status parseEntry(const ArtifactFile& file, std::string_view name, Message& message) {
  std::span<const uint8_t> bytes;
  TESSERA_RETURN_IF_ERROR(statusOf(file.read(name, &bytes)));
  if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return damaged(absl::StrCat(std::string(name), " does not parse"));
  return absl::OkStatus();
}

/// Bytes of a buffer of a kernel; -1 if its size overflows.
int64_t bytesOf(const v1::SpatialKernel::Buffer& buffer) {
  int64_t bytes = elementBytes(buffer.dtype());
  for (const int64_t extent : buffer.shape())
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  return bytes;
}

std::string inputName(const v1::Plan& plan, size_t input) {
  return absl::StrCat("input '", plan.inputs(static_cast<int>(input)).name(), "'");
}

/// Memory for `bytes` bytes, aligned to 8.
std::vector<uint64_t> alignedBytes(size_t bytes) { return std::vector<uint64_t>((bytes + 7) / 8); }

uint8_t* bytesAt(std::vector<uint64_t>& memory) { return reinterpret_cast<uint8_t*>(memory.data()); }

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedArtifact>> SimulatedArtifact::open(ArtifactFile file, bool verify_weights) {
  std::unique_ptr<SimulatedArtifact> artifact(new SimulatedArtifact());
  artifact->file_ = std::move(file);
  TESSERA_RETURN_IF_ERROR(artifact->read(verify_weights));
  return artifact;
}

absl::Status SimulatedArtifact::read(bool verify_weights) {
  TESSERA_RETURN_IF_ERROR(parseEntry(file_, kManifestEntry, manifest_));
  TESSERA_RETURN_IF_ERROR(parseEntry(file_, kPlanEntry, plan_));
  TESSERA_RETURN_IF_ERROR(parseEntry(file_, kKernelsEntry, program_));
  if (const ZipEntry* entry = file_.find(kWeightsEntry)) {
    weights_ = file_.bytes(*entry);
    if (verify_weights) TESSERA_RETURN_IF_ERROR(statusOf(file_.read(kWeightsEntry, &weights_)));
  }
  if (static_cast<int64_t>(weights_.size()) != plan_.weights_bytes())
    return damaged(
        absl::StrCat("it has ", weights_.size(), " bytes of weights, its plan expects ", plan_.weights_bytes()));
  if (program_.kernels_size() != plan_.workloads_size())
    return damaged(
        absl::StrCat("it has ", program_.kernels_size(), " kernels for ", plan_.workloads_size(), " workloads"));
  TESSERA_ASSIGN_OR_RETURN(tables_, PlanTables::make(plan_));
  return checkSteps();
}

absl::Status SimulatedArtifact::checkSteps() const {
  for (size_t v = 0; v < variants(); ++v) {
    for (const v1::Step& step : variant(v).steps()) {
      const v1::SpatialKernel& kernel = program_.kernels(step.workload());
      const std::string place = absl::StrCat("kernel ", kernel.symbol());
      if (kernel.operands() != step.operands_size() || kernel.operands() > kernel.buffers_size() ||
          kernel.results() < 0 || kernel.results() > kernel.operands())
        return damaged(
            absl::StrCat(place, " has ", kernel.operands(), " operands, a step passes ", step.operands_size()));
      for (int i = 0; i < kernel.operands(); ++i) {
        const int64_t passed = variant(v).buffers(step.operands(i)).size_bytes();
        if (bytesOf(kernel.buffers(i)) == passed) continue;
        return damaged(absl::StrCat("operand ", i, " of ", place, " has ", bytesOf(kernel.buffers(i)),
                                    " bytes, a step passes ", passed));
      }
    }
  }
  return absl::OkStatus();
}

SimulatedSession::SimulatedSession(const SimulatedArtifact& artifact, size_t variant)
    : artifact_(artifact),
      plan_(artifact.variant(variant)),
      table_(artifact.module().variants[variant]),
      loops_(table_) {}

absl::StatusOr<std::unique_ptr<SimulatedSession>> SimulatedSession::create(const SimulatedArtifact& artifact,
                                                                           size_t variant) {
  if (variant >= artifact.variants())
    return absl::InvalidArgumentError(absl::StrCat("variant ", variant, " of ", artifact.variants()));
  std::unique_ptr<SimulatedSession> session(new SimulatedSession(artifact, variant));
  TESSERA_RETURN_IF_ERROR(session->load());
  return session;
}

absl::Status SimulatedSession::load() {
  for (const v1::Step& step : plan_.steps()) {
    first_operand_.push_back(operands_.size());
    operands_.resize(operands_.size() + static_cast<size_t>(step.operands_size()));
    std::unique_ptr<LoadedKernel>& kernel = kernels_[step.workload()];
    if (kernel) continue;
    TESSERA_ASSIGN_OR_RETURN(
        kernel, LoadedKernel::load(artifact_.program().kernels(step.workload()), artifact_.plan().target()));
  }
  runs_ = iterationsOfSteps(plan_);
  try {
    arena_ = alignedBytes(static_cast<size_t>(plan_.arena_bytes()));
    for (int i = 0; i < plan_.inputs_size(); ++i)
      inputs_.push_back(alignedBytes(static_cast<size_t>(table_.inputs[i].size_bytes)));
    for (int i = 0; i < plan_.outputs_size(); ++i)
      outputs_.push_back(alignedBytes(static_cast<size_t>(table_.outputs[i].size_bytes)));
    output_specs_.assign(plan_.outputs().begin(), plan_.outputs().end());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("not enough memory for the run's ", plan_.arena_bytes(), " bytes of intermediates"));
  }
  addresses_.assign(static_cast<size_t>(plan_.buffers_size()), nullptr);
  for (int b = 0; b < plan_.buffers_size(); ++b) {
    const v1::Buffer& buffer = plan_.buffers(b);
    uint8_t*& address = addresses_[static_cast<size_t>(b)];
    switch (buffer.kind()) {
      case v1::Buffer::INPUT:
        address = bytesAt(inputs_[static_cast<size_t>(buffer.index())]);
        break;
      case v1::Buffer::OUTPUT:
        address = bytesAt(outputs_[static_cast<size_t>(buffer.index())]);
        break;
      case v1::Buffer::WEIGHT:
        // Kernels read weights only; load() of the kernel rejects nests that write arguments.
        address = const_cast<uint8_t*>(artifact_.weights().data()) + buffer.offset();
        break;
      case v1::Buffer::ARENA:
        address = bytesAt(arena_) + buffer.offset();
        break;
      default:
        continue;  // LOOP: set before each iteration
    }
    if (!loops_.empty()) loops_.setAddress(static_cast<size_t>(b), address);
  }
  for (int s = 0; s < plan_.steps_size(); ++s) {
    for (int i = 0; i < plan_.steps(s).operands_size(); ++i)
      operands_[first_operand_[static_cast<size_t>(s)] + static_cast<size_t>(i)] =
          addressOf(plan_.steps(s).operands(i));
  }
  return absl::OkStatus();
}

absl::Status SimulatedSession::bind(std::span<const std::string_view> inputs, std::vector<std::string>& outputs) {
  if (inputs.size() != inputs_.size())
    return absl::InvalidArgumentError(absl::StrCat(inputs.size(), " inputs were given for ", inputs_.size()));
  std::vector<std::string_view> given(inputs.begin(), inputs.end());
  const tessera_module& module = artifact_.module();
  for (const tessera_module_fixed_input& fixed :
       std::span(module.fixed_inputs, static_cast<size_t>(module.num_fixed_inputs))) {
    std::string_view& input = given[static_cast<size_t>(fixed.input)];
    if (input.data() == nullptr) {
      input = {static_cast<const char*>(fixed.data), static_cast<size_t>(fixed.size_bytes)};
    } else if (fixed.may_differ == 0 && static_cast<int64_t>(input.size()) == fixed.size_bytes) {
      TESSERA_RETURN_IF_ERROR(statusOf(checkFixedInput(table_.inputs[fixed.input], fixed, input.data())));
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto wanted = static_cast<size_t>(table_.inputs[i].size_bytes);
    if (given[i].size() != wanted)
      return absl::InvalidArgumentError(
          absl::StrCat(inputName(plan_, i), " takes ", wanted, " bytes, ", given[i].size(), " were given"));
    if (wanted > 0) std::memcpy(bytesAt(inputs_[i]), given[i].data(), wanted);
  }
  outputs.resize(outputs_.size());
  return absl::OkStatus();
}

absl::Status SimulatedSession::runStep(size_t index) {
  const v1::Step& step = plan_.steps(static_cast<int>(index));
  const v1::SpatialKernel& kernel = artifact_.program().kernels(step.workload());
  std::vector<uint8_t*> operands;
  for (int i = 0; i < step.operands_size(); ++i)
    operands.push_back(static_cast<uint8_t*>(operands_[first_operand_[index] + static_cast<size_t>(i)]));
  // The memory plan may give a result the memory of an argument that ends here. Kernels assume separate operands, so
  // such a result is computed elsewhere and copied.
  struct Private {
    uint8_t* result = nullptr;
    size_t offset = 0, bytes = 0;  // in private_results_
  };
  std::vector<Private> privates;
  const auto sizeOf = [&](size_t operand) {
    return static_cast<size_t>(bytesOf(kernel.buffers(static_cast<int>(operand))));
  };
  const auto arguments = operands.size() - static_cast<size_t>(kernel.results());
  size_t total = 0;
  for (size_t r = arguments; r < operands.size(); ++r) {
    for (size_t a = 0; a < arguments; ++a) {
      if (operands[r] + sizeOf(r) <= operands[a] || operands[a] + sizeOf(a) <= operands[r]) continue;
      privates.push_back({.result = operands[r], .offset = total, .bytes = sizeOf(r)});
      total += (sizeOf(r) + 7) / 8 * 8;
      operands[r] = nullptr;
      break;
    }
  }
  if (private_results_.size() < total / 8) private_results_.resize(total / 8);
  size_t next = 0;
  for (uint8_t*& operand : operands)
    if (operand == nullptr) operand = bytesAt(private_results_) + privates[next++].offset;
  if (absl::Status status = kernels_.at(step.workload())->run(operands); !status.ok())
    return {status.code(), absl::StrCat("step '", step.name(), "': ", status.message())};
  for (const Private& each : privates) std::memcpy(each.result, bytesAt(private_results_) + each.offset, each.bytes);
  return absl::OkStatus();
}

absl::Status SimulatedSession::run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs) {
  TESSERA_RETURN_IF_ERROR(bind(inputs, outputs));
  std::vector<int64_t> runs(runs_.size(), 0);
  const auto end = static_cast<size_t>(plan_.steps_size());
  // One call of the loop control is one step, since each step has one phase.
  for (size_t at = loops_.empty() ? 0 : loops_.begin(operands_); at < end;
       at = loops_.empty() ? at + 1 : loops_.next(at)) {
    TESSERA_RETURN_IF_ERROR(runStep(at));
    ++runs[at];
  }
  runs_ = std::move(runs);
  TESSERA_RETURN_IF_ERROR(checkFaults());
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i].assign(reinterpret_cast<const char*>(outputs_[i].data()),
                      static_cast<size_t>(table_.outputs[i].size_bytes));
  cropOutputs(outputs);
  return absl::OkStatus();
}

absl::Status SimulatedSession::checkFaults() const {
  const v1::RunFaults& faults = plan_.run_faults();
  if (faults.messages().empty()) return absl::OkStatus();
  int64_t fault = 0;
  std::memcpy(&fault, addressOf(faults.buffer()), sizeof(fault));
  if (fault == 0) return absl::OkStatus();
  const bool known = fault > 0 && fault <= faults.messages_size();
  return absl::InvalidArgumentError(known ? faults.messages(static_cast<int>(fault) - 1)
                                          : absl::StrCat("the run ended with unknown error ", fault));
}

void SimulatedSession::cropOutputs(std::vector<std::string>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) output_specs_[i] = plan_.outputs(static_cast<int>(i));
  for (const v1::RuntimeExtent& extent : plan_.runtime_extents()) {
    int64_t size = 0;
    std::memcpy(&size, addressOf(extent.buffer()), sizeof(size));
    v1::TensorSpec& spec = output_specs_[static_cast<size_t>(extent.output())];
    const int64_t bound = spec.shape(extent.dimension());
    spec.set_shape(extent.dimension(), std::clamp<int64_t>(size, 0, bound));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const v1::TensorSpec& bounds = plan_.outputs(static_cast<int>(i));
    const v1::TensorSpec& spec = output_specs_[i];
    if (std::ranges::equal(bounds.shape(), spec.shape())) continue;
    const auto element = static_cast<size_t>(elementBytes(spec.dtype()));
    packDense(outputs[i].data(), element, {bounds.shape().data(), static_cast<size_t>(bounds.shape_size())},
              {spec.shape().data(), static_cast<size_t>(spec.shape_size())});
    size_t bytes = element;
    for (const int64_t extent : spec.shape()) bytes *= static_cast<size_t>(extent);
    outputs[i].resize(bytes);
  }
}

absl::StatusOr<std::vector<KernelCost>> SimulatedSession::costs() {
  const v1::Target& target = artifact_.plan().target();
  std::vector<KernelCost> costs;
  SharedCache cache(target);
  for (int s = 0; s < plan_.steps_size(); ++s) {
    const v1::Step& step = plan_.steps(s);
    LoadedKernel& kernel = *kernels_.at(step.workload());
    const std::vector<int64_t> tensors(step.operands().begin(), step.operands().end());
    // What a step of a loop finds differs from one iteration to the next; it counts as nothing.
    const bool once = runs_[static_cast<size_t>(s)] == 1;
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
  for (int s = 0; s < plan_.steps_size(); ++s) {
    const v1::Step& step = plan_.steps(s);
    total.add(step.name(), artifact_.program().kernels(step.workload()).symbol(), all[static_cast<size_t>(s)],
              runs_[static_cast<size_t>(s)]);
  }
  return std::move(total).take();
}

absl::StatusOr<std::vector<RunEvent>> SimulatedSession::events() {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<KernelCost> costs, this->costs());
  std::vector<RunEvent> all;
  double start = 0;
  for (int s = 0; s < plan_.steps_size(); ++s) {
    const KernelCost& cost = costs[static_cast<size_t>(s)];
    for (RunEvent& event : eventsOf(plan_.steps(s).name(), cost, runs_[static_cast<size_t>(s)], start))
      all.push_back(std::move(event));
    start += cost.cycles() * static_cast<double>(runs_[static_cast<size_t>(s)]);
  }
  return all;
}

}  // namespace tessera::compiler::simulator
