#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/opencl/driver.h"
#include "compiler/backends/opencl/resources.h"
#include "compiler/backends/spatial/plan_tables.h"
#include "compiler/runtime/artifact_reader.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/opencl.pb.h"
#include "tessera/v1/plan.pb.h"

/// Artifacts for OpenCL devices (family OPENCL): loaded and run on a device of this machine.
namespace tessera::compiler::opencl {

/// An opened artifact. Immutable; sessions share it.
class OpenClArtifact {
 public:
  /// Whether the file is an artifact for an OpenCL device.
  static bool isOne(const ArtifactFile& file) { return file.find(kLaunchesEntry) != nullptr; }

  /// Reads and checks everything except the weights' content, which `verify_weights` adds. Needs no device. Fails with
  /// INVALID_ARGUMENT naming the entry or the kernel at fault.
  static absl::StatusOr<std::unique_ptr<OpenClArtifact>> open(ArtifactFile file, bool verify_weights = false);

  const v1::Manifest& manifest() const { return manifest_; }
  const v1::Plan& plan() const { return plan_; }
  /// The first variant is the plan itself.
  const v1::Plan& variant(size_t index) const {
    return index == 0 ? plan_ : plan_.variants(static_cast<int>(index) - 1);
  }
  size_t variants() const { return static_cast<size_t>(plan_.variants_size()) + 1; }
  const tessera_module& module() const { return tables_->module(); }
  const v1::OpenClProgram& program() const { return program_; }
  std::string_view source() const { return source_; }
  std::span<const uint8_t> weights() const { return weights_; }

 private:
  OpenClArtifact() = default;
  absl::Status read(bool verify_weights);
  absl::Status checkSteps() const;

  ArtifactFile file_;
  v1::Manifest manifest_;
  v1::Plan plan_;
  v1::OpenClProgram program_;
  std::string_view source_;
  std::span<const uint8_t> weights_;
  std::unique_ptr<simulator::PlanTables> tables_;
};

/// Runs one variant of an artifact on the first device (firstDevice()). Memory is allocated, weights are copied and the
/// program is built once, when the session is created. One call at a time.
class OpenClSession {
 public:
  /// `artifact` must outlive the session. Errors: UNAVAILABLE without library, platform or device; FAILED_PRECONDITION
  /// naming the kernel that the device cannot run, with the build log, or the loop of a plan, which needs values of the
  /// device on the host; RESOURCE_EXHAUSTED for memory that the device does not have.
  static absl::StatusOr<std::unique_ptr<OpenClSession>> create(const OpenClArtifact& artifact, size_t variant);

  /// Runs the program. Inputs and outputs are dense tensors in the order and with the sizes of the variant's. An input
  /// without bytes takes its default value. Fails with INVALID_ARGUMENT naming the input, OUT_OF_RANGE naming the node
  /// for an index outside of its tensor, and for a run that takes a branch that does not work (Plan.run_faults).
  absl::Status run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs);

  /// The shapes of the outputs of the latest run, some of whose extents the run determines.
  const std::vector<v1::TensorSpec>& outputSpecs() const { return output_specs_; }
  const Device& device() const { return context_.device(); }
  /// Time of each step of the latest run on the device, in milliseconds.
  const std::vector<double>& stepTimes() const { return step_ms_; }

 private:
  /// A part of a memory object.
  struct Place {
    cl_mem memory = nullptr;
    int64_t offset = 0, bytes = 0;
    bool overlaps(const Place& other) const {
      return memory == other.memory && offset < other.offset + other.bytes && other.offset < offset + bytes;
    }
  };
  struct Launch {
    size_t step = 0;
    Kernel kernel;
    const v1::OpenClKernel::Launch* code = nullptr;
  };
  /// A result that was computed apart from the argument whose memory it takes.
  struct Copy {
    size_t after = 0;  ///< number of launches before it
    Place from, to;
  };

  OpenClSession(const OpenClArtifact& artifact, size_t variant);
  absl::Status load();
  absl::Status allocate();
  absl::Status addStep(size_t index);
  absl::Status addLaunch(size_t step, const v1::OpenClKernel::Launch& code, const std::vector<Place>& buffers);
  absl::StatusOr<std::vector<std::string_view>> checkedInputs(std::span<const std::string_view> inputs) const;
  absl::Status enqueue(size_t number);
  absl::Status finish(std::vector<std::string>& outputs);
  absl::Status checkFaults();
  absl::Status cropOutputs(std::vector<std::string>& outputs);
  absl::StatusOr<int64_t> numberIn(int32_t buffer);

  const OpenClArtifact& artifact_;
  const v1::Plan& plan_;                 // the variant
  const tessera_module_variant& table_;  // likewise
  Context context_;
  Program program_;
  Memory weights_, arena_, workspace_, faults_;
  std::vector<Memory> inputs_, outputs_;
  std::vector<Place> places_;  // per buffer of the plan
  std::vector<Launch> launches_;
  std::vector<Copy> copies_;
  std::vector<Event> events_;  // per launch
  std::vector<int32_t> no_faults_;
  std::vector<double> step_ms_;
  std::vector<v1::TensorSpec> output_specs_;
};

}  // namespace tessera::compiler::opencl
