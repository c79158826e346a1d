#include "compiler/backends/opencl/session.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "compiler/backends/opencl/buffer_bytes.h"
#include "compiler/runtime/fixed_inputs.h"
#include "compiler/runtime/output_extents.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

/// Buffers that share a memory object begin at multiples of it.
constexpr int64_t kAlignment = 128;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Bytes of a step's temporaries and of results that may need memory apart from the arguments'.
int64_t workspaceBytes(const v1::OpenClKernel& kernel) {
  int64_t bytes = 0;
  for (int b = kernel.operands() - kernel.results(); b < kernel.buffers_size(); ++b)
    bytes += aligned(bytesOf(kernel.buffers(b)));
  return bytes;
}

}  // namespace

OpenClSession::OpenClSession(const OpenClArtifact& artifact, size_t variant)
    : artifact_(artifact), plan_(artifact.variant(variant)), table_(artifact.module().variants[variant]) {}

absl::StatusOr<std::unique_ptr<OpenClSession>> OpenClSession::create(const OpenClArtifact& artifact, size_t variant) {
  if (variant >= artifact.variants())
    return absl::InvalidArgumentError(absl::StrCat("variant ", variant, " of ", artifact.variants()));
  std::unique_ptr<OpenClSession> session(new OpenClSession(artifact, variant));
  TESSERA_RETURN_IF_ERROR(session->load());
  return session;
}

absl::Status OpenClSession::load() {
  if (plan_.loops_size() > 0)
    return absl::FailedPreconditionError(absl::StrCat(
        "the plan has a loop around step '", plan_.steps(plan_.loops(0).first_step()).name(),
        "', whose iterations each run determines; loops do not run on OpenCL devices: compile for a processor"));
  TESSERA_ASSIGN_OR_RETURN(context_, Context::create());
  TESSERA_ASSIGN_OR_RETURN(program_, context_.build(artifact_.source()));
  TESSERA_RETURN_IF_ERROR(allocate());
  output_specs_.assign(plan_.outputs().begin(), plan_.outputs().end());
  step_ms_.assign(static_cast<size_t>(plan_.steps_size()), 0);
  for (size_t s = 0; s < step_ms_.size(); ++s) TESSERA_RETURN_IF_ERROR(addStep(s));
  events_.resize(launches_.size());
  return absl::OkStatus();
}

absl::Status OpenClSession::allocate() {
  int64_t workspace = 0;
  for (const v1::Step& step : plan_.steps())
    workspace = std::max(workspace, workspaceBytes(artifact_.program().kernels(step.workload())));
  const auto weights = artifact_.weights();
  TESSERA_ASSIGN_OR_RETURN(weights_,
                           context_.allocate(static_cast<int64_t>(weights.size()), "weights", weights.data()));
  TESSERA_ASSIGN_OR_RETURN(arena_, context_.allocate(plan_.arena_bytes(), "intermediates"));
  TESSERA_ASSIGN_OR_RETURN(workspace_, context_.allocate(workspace, "temporaries of a step"));
  no_faults_.assign(static_cast<size_t>(plan_.steps_size()), 0);
  TESSERA_ASSIGN_OR_RETURN(faults_, context_.allocate(4 * int64_t{plan_.steps_size()}, "error flags"));
  for (int i = 0; i < plan_.inputs_size(); ++i) {
    TESSERA_ASSIGN_OR_RETURN(
        Memory memory, context_.allocate(table_.inputs[i].size_bytes, absl::StrCat("input ", plan_.inputs(i).name())));
    inputs_.push_back(std::move(memory));
  }
  for (int i = 0; i < plan_.outputs_size(); ++i) {
    TESSERA_ASSIGN_OR_RETURN(Memory memory, context_.allocate(table_.outputs[i].size_bytes,
                                                              absl::StrCat("output ", plan_.outputs(i).name())));
    outputs_.push_back(std::move(memory));
  }
  for (const v1::Buffer& buffer : plan_.buffers()) {
    Place place{.offset = buffer.offset(), .bytes = buffer.size_bytes()};
    switch (buffer.kind()) {
      case v1::Buffer::INPUT:
        place = {inputs_[static_cast<size_t>(buffer.index())].get(), 0, buffer.size_bytes()};
        break;
      case v1::Buffer::OUTPUT:
        place = {outputs_[static_cast<size_t>(buffer.index())].get(), 0, buffer.size_bytes()};
        break;
      case v1::Buffer::WEIGHT:
        place.memory = weights_.get();
        break;
      default:
        place.memory = arena_.get();
    }
    places_.push_back(place);
  }
  return absl::OkStatus();
}

absl::Status OpenClSession::addStep(size_t index) {
  const v1::Step& step = plan_.steps(static_cast<int>(index));
  const v1::OpenClKernel& kernel = artifact_.program().kernels(step.workload());
  int64_t used = 0;  // of the workspace
  const auto inWorkspace = [&](int64_t bytes) {
    const Place place{workspace_.get(), used, bytes};
    used += aligned(bytes);
    return place;
  };
  std::vector<Place> buffers;
  for (int b = 0; b < kernel.operands(); ++b) buffers.push_back(places_[static_cast<size_t>(step.operands(b))]);
  // The memory plan may give a result the memory of an argument that ends here. Kernels assume separate operands, so
  // such a result is computed in the workspace and copied.
  std::vector<Copy> copies;
  const auto arguments = static_cast<size_t>(kernel.operands() - kernel.results());
  for (size_t r = arguments; r < buffers.size(); ++r) {
    const bool shared = std::any_of(buffers.begin(), buffers.begin() + static_cast<int64_t>(arguments),
                                    [&](const Place& argument) { return argument.overlaps(buffers[r]); });
    if (!shared) continue;
    const Place own = inWorkspace(buffers[r].bytes);
    copies.push_back({.from = own, .to = buffers[r]});
    buffers[r] = own;
  }
  for (int b = kernel.operands(); b < kernel.buffers_size(); ++b)
    buffers.push_back(inWorkspace(bytesOf(kernel.buffers(b))));
  for (const v1::OpenClKernel::Launch& launch : kernel.launches())
    TESSERA_RETURN_IF_ERROR(addLaunch(index, launch, buffers));
  for (Copy& copy : copies) {
    copy.after = launches_.size();
    if (copy.to.bytes > 0) copies_.push_back(copy);
  }
  return absl::OkStatus();
}

absl::Status OpenClSession::addLaunch(size_t step, const v1::OpenClKernel::Launch& code,
                                      const std::vector<Place>& buffers) {
  const Device& device = context_.device();
  int64_t items = 1;
  for (const int64_t size : code.work_group()) items *= size;
  if (items > device.max_group_items || code.local_bytes() > device.local_bytes)
    return absl::FailedPreconditionError(absl::StrCat(
        "kernel ", code.function(), " has groups of ", items, " work-items with ", code.local_bytes(),
        " bytes of local memory; OpenCL device ", device.name, " runs at most ", device.max_group_items, " with ",
        device.local_bytes, ": compile for a description of this device (`tessera compile --target FILE`)"));
  Launch launch{.step = step, .kernel = {}, .code = &code};
  TESSERA_ASSIGN_OR_RETURN(launch.kernel, context_.kernel(program_, code.function()));
  cl_uint position = 0;
  const auto set = [&](const auto& value) {
    const cl_uint at = position++;
    return context_.setParameter(launch.kernel, code.function(), at, std::as_bytes(std::span(&value, 1)));
  };
  for (const v1::OpenClKernel::Argument& argument : code.arguments()) {
    const Place& place = buffers[static_cast<size_t>(argument.buffer())];
    cl_mem memory = place.memory;
    const auto offset = static_cast<cl_ulong>(place.offset);
    TESSERA_RETURN_IF_ERROR(set(memory));
    TESSERA_RETURN_IF_ERROR(set(offset));
  }
  if (code.checks_indices()) {
    cl_mem memory = faults_.get();
    const auto number = static_cast<cl_int>(step);
    TESSERA_RETURN_IF_ERROR(set(memory));
    TESSERA_RETURN_IF_ERROR(set(number));
  }
  launches_.push_back(std::move(launch));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string_view>> OpenClSession::checkedInputs(
    std::span<const std::string_view> inputs) const {
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

absl::Status OpenClSession::enqueue(size_t number) {
  Launch& launch = launches_[number];
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
      absl::StrCat("step '", plan_.steps(static_cast<int>(launch.step)).name(), "', kernel ",
                   launch.code->function())));
  events_[number] = Event(context_.driver(), event);
  return absl::OkStatus();
}

absl::Status OpenClSession::run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string_view> given, checkedInputs(inputs));
  const Driver& driver = context_.driver();
  // The device reads the caller's memory until the queue is empty, also after an error.
  const absl::Cleanup wait = [&] { (void)driver.clFinish(context_.queue()); };
  const auto write = [&](const Memory& memory, const void* from, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    return Context::check(
        driver.clEnqueueWriteBuffer(context_.queue(), memory.get(), CL_FALSE, 0, bytes, from, 0, nullptr, nullptr),
        "an input is not copied to the device");
  };
  for (size_t i = 0; i < given.size(); ++i)
    TESSERA_RETURN_IF_ERROR(write(inputs_[i], given[i].data(), given[i].size()));
  TESSERA_RETURN_IF_ERROR(write(faults_, no_faults_.data(), 4 * no_faults_.size()));
  auto copy = copies_.begin();
  for (size_t l = 0; l <= launches_.size(); ++l) {
    for (; copy != copies_.end() && copy->after == l; ++copy)
      TESSERA_RETURN_IF_ERROR(Context::check(
          driver.clEnqueueCopyBuffer(context_.queue(), copy->from.memory, copy->to.memory,
                                     static_cast<size_t>(copy->from.offset), static_cast<size_t>(copy->to.offset),
                                     static_cast<size_t>(copy->to.bytes), 0, nullptr, nullptr),
          "a result is not copied"));
    if (l < launches_.size()) TESSERA_RETURN_IF_ERROR(enqueue(l));
  }
  return finish(outputs);
}

absl::Status OpenClSession::finish(std::vector<std::string>& outputs) {
  const Driver& driver = context_.driver();
  std::vector<int32_t> faults(no_faults_.size());
  const absl::Cleanup wait = [&] { (void)driver.clFinish(context_.queue()); };
  outputs.resize(outputs_.size());
  const auto read = [&](const Memory& memory, void* to, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    return Context::check(
        driver.clEnqueueReadBuffer(context_.queue(), memory.get(), CL_FALSE, 0, bytes, to, 0, nullptr, nullptr),
        "an output is not copied from the device");
  };
  TESSERA_RETURN_IF_ERROR(read(faults_, faults.data(), 4 * faults.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].resize(static_cast<size_t>(table_.outputs[i].size_bytes));
    TESSERA_RETURN_IF_ERROR(read(outputs_[i], outputs[i].data(), outputs[i].size()));
  }
  TESSERA_RETURN_IF_ERROR(Context::check(driver.clFinish(context_.queue()), "the run does not end"));
  std::ranges::fill(step_ms_, 0);
  for (size_t l = 0; l < launches_.size(); ++l) {
    cl_ulong start = 0, end = 0;
    cl_event event = events_[l].get();
    if (driver.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) ==
            CL_SUCCESS &&
        driver.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) == CL_SUCCESS)
      step_ms_[launches_[l].step] += static_cast<double>(end - start) * 1e-6;
  }
  for (size_t s = 0; s < faults.size(); ++s)
    if (faults[s] != 0)
      return absl::OutOfRangeError(
          absl::StrCat("step '", plan_.steps(static_cast<int>(s)).name(), "' reads at an index outside of its tensor"));
  TESSERA_RETURN_IF_ERROR(checkFaults());
  return cropOutputs(outputs);
}

absl::StatusOr<int64_t> OpenClSession::numberIn(int32_t buffer) {
  const Place& place = places_[static_cast<size_t>(buffer)];
  int64_t number = 0;
  TESSERA_RETURN_IF_ERROR(Context::check(
      context_.driver().clEnqueueReadBuffer(context_.queue(), place.memory, CL_TRUE, static_cast<size_t>(place.offset),
                                            sizeof number, &number, 0, nullptr, nullptr),
      "a number of the run is not copied from the device"));
  return number;
}

absl::Status OpenClSession::checkFaults() {
  const v1::RunFaults& faults = plan_.run_faults();
  if (faults.messages().empty()) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const int64_t fault, numberIn(faults.buffer()));
  if (fault == 0) return absl::OkStatus();
  const bool known = fault > 0 && fault <= faults.messages_size();
  return absl::InvalidArgumentError(known ? faults.messages(static_cast<int>(fault) - 1)
                                          : absl::StrCat("the run ended with unknown error ", fault));
}

absl::Status OpenClSession::cropOutputs(std::vector<std::string>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) output_specs_[i] = plan_.outputs(static_cast<int>(i));
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

}  // namespace tessera::compiler::opencl
