#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/opencl/artifact.h"
#include "compiler/backends/opencl/device_memory.h"
#include "compiler/backends/opencl/driver.h"
#include "compiler/backends/opencl/resources.h"
#include "compiler/backends/plan_session/plan_session.h"
#include "tessera/v1/opencl.pb.h"

namespace tessera::compiler::opencl {

/// Runs one variant of an artifact on the first device (firstDevice()). Memory is allocated, weights are copied and the
/// program is built once, when the session is created. One call at a time.
class OpenClSession final : public PlanSession {
 public:
  /// `artifact` must outlive the session. Errors: UNAVAILABLE without library, platform or device; FAILED_PRECONDITION
  /// naming the kernel that the device cannot run, with the build log; RESOURCE_EXHAUSTED for memory that the device
  /// does not have.
  static absl::StatusOr<std::unique_ptr<OpenClSession>> create(const OpenClArtifact& artifact, size_t variant);

  /// Runs the program. Inputs and outputs are dense tensors in the order and with the sizes of the variant's. An input
  /// without bytes takes its default value. Fails with INVALID_ARGUMENT naming the input, OUT_OF_RANGE naming the node
  /// for an index outside of its tensor, and for a run that takes a branch that does not work (Plan.run_faults).
  absl::Status run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs);

  const Device& device() const { return context_.device(); }
  /// Time of each step of the latest run on the device, in all iterations of its loops, in milliseconds.
  const std::vector<double>& stepTimes() const { return step_ms_; }

 private:
  struct Launch {
    Kernel kernel;
    const v1::OpenClKernel::Launch* code = nullptr;
  };
  /// A result that was computed apart from the argument whose memory it takes.
  struct Copy {
    DevicePlace from, to;
    size_t bytes = 0;
  };
  /// The code of a step. Copies and the parameters of the kernels are those of the step's current operands.
  struct StepCode {
    std::vector<Launch> launches;
    std::vector<Copy> copies;
  };
  struct TimedLaunch {
    size_t step = 0;
    Event event;
  };

  OpenClSession(const OpenClArtifact& artifact, size_t variant, std::unique_ptr<DeviceMemory> memory);
  absl::Status load();
  absl::Status allocate();
  absl::Status addStep(size_t index);
  absl::Status bindStep(size_t index);
  absl::Status setParameters(const Launch& launch, size_t step, std::span<const DevicePlace> buffers);
  absl::Status runStep(size_t index) override;
  absl::Status memoryStatus() const override { return memory_->status(); }
  absl::Status enqueue(const Launch& launch, size_t step);
  /// Waits for the queue and adds the times of its launches.
  absl::Status wait(const char* what);
  absl::Status readOutputs(std::vector<std::string>& outputs);

  const OpenClArtifact& artifact_;
  std::unique_ptr<DeviceMemory> memory_;  // outlives the objects of its context
  const Context& context_;
  Program program_;
  Memory weights_, arena_, workspace_, faults_;
  std::vector<Memory> inputs_, outputs_;
  std::vector<StepCode> steps_;
  std::vector<TimedLaunch> timed_;
  std::vector<int32_t> no_faults_;
  std::vector<double> step_ms_;
};

}  // namespace tessera::compiler::opencl
