#include "compiler/backends/plan_session/plan_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/runtime/fixed_inputs.h"
#include "compiler/runtime/output_extents.h"
#include "proto/messages/element_size.h"
#include "proto/messages/plan_loops.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

PlanSession::PlanSession(const PlanArtifact& artifact, size_t variant, LoopMemory& memory)
    : module_(artifact.module()),
      plan_(artifact.variant(variant)),
      table_(artifact.module().variants[variant]),
      memory_(memory),
      loops_(table_, memory),
      addresses_(static_cast<size_t>(plan_.buffers_size()), nullptr),
      runs_(iterationsOfSteps(plan_)),
      output_specs_(plan_.outputs().begin(), plan_.outputs().end()) {
  for (const v1::Step& step : plan_.steps()) {
    first_operand_.push_back(operands_.size());
    operands_.resize(operands_.size() + static_cast<size_t>(step.operands_size()));
  }
}

absl::Status PlanSession::checkVariant(const PlanArtifact& artifact, size_t variant) {
  if (variant < artifact.variants()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("variant ", variant, " of ", artifact.variants()));
}

bool PlanSession::movesOperands(size_t step) const {
  return std::ranges::any_of(plan_.steps(static_cast<int>(step)).operands(),
                             [&](int32_t buffer) { return plan_.buffers(buffer).kind() == v1::Buffer::LOOP; });
}

std::vector<uint8_t*> PlanSession::operandsOf(size_t step) const {
  std::vector<uint8_t*> addresses;
  const auto count = static_cast<size_t>(plan_.steps(static_cast<int>(step)).operands_size());
  for (void* const address : std::span(operands_).subspan(first_operand_[step], count))
    addresses.push_back(static_cast<uint8_t*>(address));
  return addresses;
}

void PlanSession::bind(const Addresses& addresses) {
  for (int b = 0; b < plan_.buffers_size(); ++b) {
    const v1::Buffer& buffer = plan_.buffers(b);
    uint8_t*& address = addresses_[static_cast<size_t>(b)];
    switch (buffer.kind()) {
      case v1::Buffer::INPUT:
        address = addresses.inputs[static_cast<size_t>(buffer.index())];
        break;
      case v1::Buffer::OUTPUT:
        address = addresses.outputs[static_cast<size_t>(buffer.index())];
        break;
      case v1::Buffer::WEIGHT:
        address = addresses.weights + buffer.offset();
        break;
      case v1::Buffer::ARENA:
        address = addresses.arena + buffer.offset();
        break;
      default:
        continue;  // LOOP: set before each iteration
    }
    if (!loops_.empty()) loops_.setAddress(static_cast<size_t>(b), address);
  }
  for (int s = 0; s < plan_.steps_size(); ++s)
    for (int i = 0; i < plan_.steps(s).operands_size(); ++i)
      operands_[first_operand_[static_cast<size_t>(s)] + static_cast<size_t>(i)] =
          addresses_[static_cast<size_t>(plan_.steps(s).operands(i))];
}

absl::StatusOr<std::vector<std::string_view>> PlanSession::completedInputs(
    std::span<const std::string_view> inputs) const {
  if (inputs.size() != static_cast<size_t>(plan_.inputs_size()))
    return absl::InvalidArgumentError(absl::StrCat(inputs.size(), " inputs were given for ", plan_.inputs_size()));
  std::vector<std::string_view> given(inputs.begin(), inputs.end());
  for (const tessera_module_fixed_input& fixed :
       std::span(module_.fixed_inputs, static_cast<size_t>(module_.num_fixed_inputs))) {
    std::string_view& input = given[static_cast<size_t>(fixed.input)];
    if (input.data() == nullptr) {
      input = {static_cast<const char*>(fixed.data), static_cast<size_t>(fixed.size_bytes)};
    } else if (fixed.may_differ == 0 && static_cast<int64_t>(input.size()) == fixed.size_bytes) {
      const RuntimeStatus same = checkFixedInput(table_.inputs[fixed.input], fixed, input.data());
      if (!same.ok()) return absl::InvalidArgumentError(same.message());
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto wanted = static_cast<size_t>(table_.inputs[i].size_bytes);
    if (given[i].size() != wanted)
      return absl::InvalidArgumentError(absl::StrCat("input '", plan_.inputs(static_cast<int>(i)).name(), "' takes ",
                                                     wanted, " bytes, ", given[i].size(), " were given"));
  }
  return given;
}

absl::Status PlanSession::runSteps() {
  std::vector<int64_t> runs(runs_.size(), 0);
  const auto end = static_cast<size_t>(plan_.steps_size());
  // One call of the loop control is one step, since each step has one phase.
  for (size_t at = loops_.empty() ? 0 : loops_.begin(operands_); at < end;
       at = loops_.empty() ? at + 1 : loops_.next(at)) {
    TESSERA_RETURN_IF_ERROR(memoryStatus());
    TESSERA_RETURN_IF_ERROR(runStep(at));
    ++runs[at];
  }
  runs_ = std::move(runs);
  return memoryStatus();
}

absl::StatusOr<int64_t> PlanSession::numberIn(int32_t buffer) {
  const int64_t number = memory_.number(addresses_[static_cast<size_t>(buffer)]);
  TESSERA_RETURN_IF_ERROR(memoryStatus());
  return number;
}

absl::Status PlanSession::checkFaults() {
  const v1::RunFaults& faults = plan_.run_faults();
  if (faults.messages().empty()) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const int64_t fault, numberIn(faults.buffer()));
  if (fault == 0) return absl::OkStatus();
  const bool known = fault > 0 && fault <= faults.messages_size();
  return absl::InvalidArgumentError(known ? faults.messages(static_cast<int>(fault) - 1)
                                          : absl::StrCat("the run ended with unknown error ", fault));
}

absl::Status PlanSession::cropOutputs(std::vector<std::string>& outputs) {
  output_specs_.assign(plan_.outputs().begin(), plan_.outputs().end());
  for (const v1::RuntimeExtent& extent : plan_.runtime_extents()) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t size, numberIn(extent.buffer()));
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
  return absl::OkStatus();
}

absl::Status PlanSession::finishOutputs(std::vector<std::string>& outputs) {
  TESSERA_RETURN_IF_ERROR(checkFaults());
  return cropOutputs(outputs);
}

std::vector<size_t> resultsOverArguments(std::span<uint8_t* const> operands, std::span<const int64_t> bytes,
                                         size_t results) {
  std::vector<size_t> found;
  const size_t arguments = operands.size() - results;
  for (size_t r = arguments; r < operands.size(); ++r) {
    for (size_t a = 0; a < arguments; ++a) {
      if (operands[r] + bytes[r] <= operands[a] || operands[a] + bytes[a] <= operands[r]) continue;
      found.push_back(r);
      break;
    }
  }
  return found;
}

}  // namespace tessera::compiler
