#include "compiler/backends/opencl/session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "compiler/backends/plan_session/buffer_bytes.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

/// Buffers that share a memory object begin at multiples of it.
constexpr int64_t kAlignment = 128;

/// Launches after which a run waits and reads the times of its launches.
constexpr size_t kTimedLaunches = 4096;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Bytes of a step's temporaries and of results that may need memory apart from the arguments'.
int64_t workspaceBytes(const v1::OpenClKernel& kernel) {
  int64_t bytes = 0;
  for (int b = kernel.operands() - kernel.results(); b < kernel.buffers_size(); ++b)
    bytes += aligned(bufferBytes(kernel.buffers(b)));
  return bytes;
}

}  // namespace

OpenClSession::OpenClSession(const OpenClArtifact& artifact, size_t variant, std::unique_ptr<DeviceMemory> memory)
    : PlanSession(artifact, variant, *memory),
      artifact_(artifact),
      memory_(std::move(memory)),
      context_(memory_->context()),
      steps_(static_cast<size_t>(plan().steps_size())) {}

absl::StatusOr<std::unique_ptr<OpenClSession>> OpenClSession::create(const OpenClArtifact& artifact, size_t variant) {
  TESSERA_RETURN_IF_ERROR(checkVariant(artifact, variant));
  TESSERA_ASSIGN_OR_RETURN(Context context, Context::create());
  std::unique_ptr<OpenClSession> session(
      new OpenClSession(artifact, variant, std::make_unique<DeviceMemory>(std::move(context))));
  TESSERA_RETURN_IF_ERROR(session->load());
  return session;
}

absl::Status OpenClSession::load() {
  TESSERA_ASSIGN_OR_RETURN(program_, context_.build(artifact_.source()));
  TESSERA_RETURN_IF_ERROR(allocate());
  step_ms_.assign(steps_.size(), 0);
  for (size_t s = 0; s < steps_.size(); ++s) {
    TESSERA_RETURN_IF_ERROR(addStep(s));
    if (!movesOperands(s)) TESSERA_RETURN_IF_ERROR(bindStep(s));
  }
  return absl::OkStatus();
}

absl::Status OpenClSession::allocate() {
  int64_t workspace = 0;
  for (const v1::Step& step : plan().steps())
    workspace = std::max(workspace, workspaceBytes(artifact_.program().kernels(step.workload())));
  const auto weights = artifact_.weights();
  TESSERA_ASSIGN_OR_RETURN(weights_,
                           context_.allocate(static_cast<int64_t>(weights.size()), "weights", weights.data()));
  TESSERA_ASSIGN_OR_RETURN(arena_, context_.allocate(plan().arena_bytes(), "intermediates"));
  TESSERA_ASSIGN_OR_RETURN(workspace_, context_.allocate(workspace, "temporaries of a step"));
  no_faults_.assign(static_cast<size_t>(plan().steps_size()), 0);
  TESSERA_ASSIGN_OR_RETURN(faults_, context_.allocate(4 * int64_t{plan().steps_size()}, "error flags"));
  for (int i = 0; i < plan().inputs_size(); ++i) {
    TESSERA_ASSIGN_OR_RETURN(Memory memory, context_.allocate(table().inputs[i].size_bytes,
                                                              absl::StrCat("input ", plan().inputs(i).name())));
    inputs_.push_back(std::move(memory));
  }
  for (int i = 0; i < plan().outputs_size(); ++i) {
    TESSERA_ASSIGN_OR_RETURN(Memory memory, context_.allocate(table().outputs[i].size_bytes,
                                                              absl::StrCat("output ", plan().outputs(i).name())));
    outputs_.push_back(std::move(memory));
  }
  Addresses addresses;
  addresses.arena = memory_->add(arena_.get(), plan().arena_bytes());
  addresses.weights = memory_->add(weights_.get(), plan().weights_bytes());
  for (size_t i = 0; i < inputs_.size(); ++i)
    addresses.inputs.push_back(memory_->add(inputs_[i].get(), table().inputs[i].size_bytes));
  for (size_t i = 0; i < outputs_.size(); ++i)
    addresses.outputs.push_back(memory_->add(outputs_[i].get(), table().outputs[i].size_bytes));
  bind(addresses);
  return absl::OkStatus();
}

absl::Status OpenClSession::addStep(size_t index) {
  const Device& device = context_.device();
  const int32_t workload = plan().steps(static_cast<int>(index)).workload();
  for (const v1::OpenClKernel::Launch& code : artifact_.program().kernels(workload).launches()) {
    int64_t items = 1;
    for (const int64_t size : code.work_group()) items *= size;
    if (items > device.max_group_items || code.local_bytes() > device.local_bytes)
      return absl::FailedPreconditionError(absl::StrCat(
          "kernel ", code.function(), " has groups of ", items, " work-items with ", code.local_bytes(),
          " bytes of local memory; OpenCL device ", device.name, " runs at most ", device.max_group_items, " with ",
          device.local_bytes, ": compile for a description of this device (`tessera compile --target FILE`)"));
    Launch launch{.kernel = {}, .code = &code};
    TESSERA_ASSIGN_OR_RETURN(launch.kernel, context_.kernel(program_, code.function()));
    steps_[index].launches.push_back(std::move(launch));
  }
  return absl::OkStatus();
}

absl::Status OpenClSession::bindStep(size_t index) {
  StepCode& step = steps_[index];
  const v1::OpenClKernel& kernel = artifact_.program().kernels(plan().steps(static_cast<int>(index)).workload());
  const std::vector<uint8_t*> operands = operandsOf(index);
  std::vector<int64_t> bytes;
  for (const v1::SpatialKernel::Buffer& buffer : kernel.buffers()) bytes.push_back(bufferBytes(buffer));
  std::vector<DevicePlace> buffers;
  for (const uint8_t* operand : operands) buffers.push_back(memory_->place(operand));
  int64_t used = 0;  // of the workspace
  const auto inWorkspace = [&](size_t buffer) {
    const DevicePlace place{.memory = workspace_.get(), .offset = used};
    used += aligned(bytes[buffer]);
    return place;
  };
  // Results in the memory of arguments are computed in the workspace and copied.
  step.copies.clear();
  for (const size_t r :
       resultsOverArguments(operands, std::span(bytes).first(operands.size()), static_cast<size_t>(kernel.results()))) {
    const DevicePlace own = inWorkspace(r);
    if (bytes[r] > 0) step.copies.push_back({.from = own, .to = buffers[r], .bytes = static_cast<size_t>(bytes[r])});
    buffers[r] = own;
  }
  for (size_t b = operands.size(); b < bytes.size(); ++b) buffers.push_back(inWorkspace(b));
  for (const Launch& launch : step.launches) TESSERA_RETURN_IF_ERROR(setParameters(launch, index, buffers));
  return absl::OkStatus();
}

absl::Status OpenClSession::setParameters(const Launch& launch, size_t step, std::span<const DevicePlace> buffers) {
  const v1::OpenClKernel::Launch& code = *launch.code;
  cl_uint position = 0;
  const auto set = [&](const auto& value) {
    const cl_uint at = position++;
    return context_.setParameter(launch.kernel, code.function(), at, std::as_bytes(std::span(&value, 1)));
  };
  for (const v1::OpenClKernel::Argument& argument : code.arguments()) {
    const DevicePlace& place = buffers[static_cast<size_t>(argument.buffer())];
    cl_mem memory = place.memory;
    const auto offset = static_cast<cl_ulong>(place.offset);
    TESSERA_RETURN_IF_ERROR(set(memory));
    TESSERA_RETURN_IF_ERROR(set(offset));
  }
  if (!code.checks_indices()) return absl::OkStatus();
  cl_mem memory = faults_.get();
  const auto number = static_cast<cl_int>(step);
  TESSERA_RETURN_IF_ERROR(set(memory));
  return set(number);
}

absl::Status OpenClSession::enqueue(const Launch& launch, size_t step) {
  std::array<size_t, 3> items{}, group{};
  const int dimensions = launch.code->work_items_size();
  for (int d = 0; d < dimensions; ++d) {
    items[static_cast<size_t>(d)] = static_cast<size_t>(launch.code->work_items(d));
    group[static_cast<size_t>(d)] = static_cast<size_t>(launch.code->work_group(d));
  }
  cl_event event = nullptr;
  TESSERA_RETURN_IF_ERROR(Context::check(
      context_.driver().clEnqueueNDRangeKernel(context_.queue(), launch.kernel.get(), static_cast<cl_uint>(dimensions),
                                               nullptr, items.data(), group.data(), 0, nullptr, &event),
      absl::StrCat("step '", plan().steps(static_cast<int>(step)).name(), "', kernel ", launch.code->function())));
  timed_.push_back({.step = step, .event = Event(context_.driver(), event)});
  return absl::OkStatus();
}

absl::Status OpenClSession::runStep(size_t index) {
  if (movesOperands(index)) TESSERA_RETURN_IF_ERROR(bindStep(index));
  for (const Launch& launch : steps_[index].launches) TESSERA_RETURN_IF_ERROR(enqueue(launch, index));
  for (const Copy& copy : steps_[index].copies)
    TESSERA_RETURN_IF_ERROR(Context::check(
        context_.driver().clEnqueueCopyBuffer(context_.queue(), copy.from.memory, copy.to.memory,
                                              static_cast<size_t>(copy.from.offset),
                                              static_cast<size_t>(copy.to.offset), copy.bytes, 0, nullptr, nullptr),
        "a result is not copied"));
  // Long loops do not collect events without end.
  return timed_.size() < kTimedLaunches ? absl::OkStatus() : wait("an iteration does not end");
}

absl::Status OpenClSession::wait(const char* what) {
  const Driver& driver = context_.driver();
  TESSERA_RETURN_IF_ERROR(Context::check(driver.clFinish(context_.queue()), what));
  for (const TimedLaunch& each : timed_) {
    cl_ulong start = 0, end = 0;
    cl_event event = each.event.get();
    if (driver.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) ==
            CL_SUCCESS &&
        driver.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) == CL_SUCCESS)
      step_ms_[each.step] += static_cast<double>(end - start) * 1e-6;
  }
  timed_.clear();
  return absl::OkStatus();
}

absl::Status OpenClSession::run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string_view> given, completedInputs(inputs));
  const Driver& driver = context_.driver();
  // The device reads and writes the caller's memory until the queue is empty, also after an error.
  const absl::Cleanup finish = [&] { (void)driver.clFinish(context_.queue()); };
  memory_->clearStatus();
  timed_.clear();
  std::ranges::fill(step_ms_, 0);
  const auto write = [&](const Memory& memory, const void* from, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    return Context::check(
        driver.clEnqueueWriteBuffer(context_.queue(), memory.get(), CL_FALSE, 0, bytes, from, 0, nullptr, nullptr),
        "an input is not copied to the device");
  };
  for (size_t i = 0; i < given.size(); ++i)
    TESSERA_RETURN_IF_ERROR(write(inputs_[i], given[i].data(), given[i].size()));
  TESSERA_RETURN_IF_ERROR(write(faults_, no_faults_.data(), 4 * no_faults_.size()));
  TESSERA_RETURN_IF_ERROR(runSteps());
  TESSERA_RETURN_IF_ERROR(readOutputs(outputs));
  return finishOutputs(outputs);
}

absl::Status OpenClSession::readOutputs(std::vector<std::string>& outputs) {
  const Driver& driver = context_.driver();
  std::vector<int32_t> faults(no_faults_.size());
  // `faults` outlives the copy to it.
  const absl::Cleanup finish = [&] { (void)driver.clFinish(context_.queue()); };
  outputs.resize(outputs_.size());
  const auto read = [&](const Memory& memory, void* to, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    return Context::check(
        driver.clEnqueueReadBuffer(context_.queue(), memory.get(), CL_FALSE, 0, bytes, to, 0, nullptr, nullptr),
        "an output is not copied from the device");
  };
  TESSERA_RETURN_IF_ERROR(read(faults_, faults.data(), 4 * faults.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].resize(static_cast<size_t>(table().outputs[i].size_bytes));
    TESSERA_RETURN_IF_ERROR(read(outputs_[i], outputs[i].data(), outputs[i].size()));
  }
  TESSERA_RETURN_IF_ERROR(wait("the run does not end"));
  for (size_t s = 0; s < faults.size(); ++s)
    if (faults[s] != 0)
      return absl::OutOfRangeError(absl::StrCat("step '", plan().steps(static_cast<int>(s)).name(),
                                                "' reads at an index outside of its tensor"));
  return absl::OkStatus();
}

}  // namespace tessera::compiler::opencl
