#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/plan_session/plan_artifact.h"
#include "compiler/backends/plan_session/plan_session.h"
#include "compiler/backends/spatial/kernel.h"
#include "compiler/backends/spatial/plan_cost.h"
#include "compiler/runtime/artifact_reader.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"

/// Artifacts for described chips (family SPATIAL): loaded and run on the simulator.
namespace tessera::compiler::simulator {

/// An opened artifact. Immutable; sessions share it.
class SimulatedArtifact final : public PlanArtifact {
 public:
  /// Whether the file is an artifact for a described chip.
  static bool isOne(const ArtifactFile& file) { return file.find(kKernelsEntry) != nullptr; }

  /// Reads and checks everything except the weights' content, which `verify_weights` adds. The file is untrusted; it
  /// holds no native code. Fails with INVALID_ARGUMENT naming the entry, or the kernel and its nest, at fault.
  static absl::StatusOr<std::unique_ptr<SimulatedArtifact>> open(ArtifactFile file, bool verify_weights = false);

  const v1::SpatialProgram& program() const { return program_; }

 private:
  using PlanArtifact::PlanArtifact;

  v1::SpatialProgram program_;
};

/// Runs one variant of an artifact. One call at a time.
class SimulatedSession final : public PlanSession {
 public:
  /// `artifact` must outlive the session. Fails with INVALID_ARGUMENT naming the kernel at fault, and with
  /// RESOURCE_EXHAUSTED for intermediates that do not fit this machine's memory.
  static absl::StatusOr<std::unique_ptr<SimulatedSession>> create(const SimulatedArtifact& artifact, size_t variant);

  /// Runs the program on the simulator in functional form. Inputs and outputs are dense tensors in the order and with
  /// the sizes of the variant's. An input without bytes takes its default value. Fails with INVALID_ARGUMENT naming the
  /// input, OUT_OF_RANGE naming the node for an index outside of its tensor, and for a run that takes a branch that
  /// does not work (Plan.run_faults).
  absl::Status run(std::span<const std::string_view> inputs, std::vector<std::string>& outputs);

  /// Time, energy and traffic of the latest run; before any run, of a run whose loops take all their iterations (an
  /// unbounded loop counts once). Fails with RESOURCE_EXHAUSTED for programs that are too long to be timed.
  absl::StatusOr<v1::SimulatedRun> cost();

  /// The same run as a sequence of events. Same errors.
  absl::StatusOr<std::vector<RunEvent>> events();

 private:
  SimulatedSession(const SimulatedArtifact& artifact, size_t variant);
  absl::Status load();
  absl::Status runStep(size_t index) override;
  /// Per step, in order; each finds in the chip's shared cache what the earlier ones left.
  absl::StatusOr<std::vector<KernelCost>> costs();

  const SimulatedArtifact& artifact_;
  std::map<int, std::unique_ptr<LoadedKernel>> kernels_;  // by workload
  std::vector<uint64_t> arena_;                           // 8-byte aligned
  std::vector<std::vector<uint64_t>> inputs_, outputs_;   // aligned copies of the caller's tensors
  std::vector<uint64_t> private_results_;                 // of one step
};

}  // namespace tessera::compiler::simulator
