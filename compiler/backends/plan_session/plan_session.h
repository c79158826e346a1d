#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/backends/plan_session/plan_artifact.h"
#include "compiler/runtime/loop_control.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Runs the steps of one variant of a plan, with loops, inputs and outputs as in the runtime. A back end derives a
/// class that owns the memory and runs one step. Memory has addresses of the derived class's choice, which the base
/// computes with and does not read through. One call at a time.
class PlanSession {
 public:
  PlanSession(const PlanSession&) = delete;
  PlanSession& operator=(const PlanSession&) = delete;

  /// The shapes of the outputs of the latest run, some of whose extents the run determines.
  const std::vector<v1::TensorSpec>& outputSpecs() const { return output_specs_; }

 protected:
  /// The addresses at which the parts of the memory begin.
  struct Addresses {
    uint8_t* arena = nullptr;
    uint8_t* weights = nullptr;
    std::vector<uint8_t*> inputs = {}, outputs = {};
  };

  /// `memory` accesses the addresses. Both must outlive the session; variant < artifact.variants().
  PlanSession(const PlanArtifact& artifact, size_t variant, LoopMemory& memory);
  ~PlanSession() = default;

  static absl::Status checkVariant(const PlanArtifact& artifact, size_t variant);

  const v1::Plan& plan() const { return plan_; }  // the variant
  const tessera_module_variant& table() const { return table_; }
  bool hasLoops() const { return !loops_.empty(); }
  /// Whether the addresses of a step's operands change from one iteration of a loop to the next.
  bool movesOperands(size_t step) const;
  /// The addresses of a step's operands, in a run: of the current iteration. Null for buffers of loops that have not
  /// begun.
  std::vector<uint8_t*> operandsOf(size_t step) const;
  /// Executions of each step in the latest run; before any run, if all loops take all their iterations.
  const std::vector<int64_t>& runs() const { return runs_; }

  /// Sets the addresses of all buffers.
  void bind(const Addresses& addresses);

  /// The inputs of a run, with values that were fixed or given as defaults when compiling for those without bytes.
  /// INVALID_ARGUMENT naming an input of another size or with another value than the fixed one.
  absl::StatusOr<std::vector<std::string_view>> completedInputs(std::span<const std::string_view> inputs) const;

  /// Calls runStep() for the steps in the order of a run.
  absl::Status runSteps();

  /// Fails with INVALID_ARGUMENT if the run took a branch that does not work (Plan.run_faults). Otherwise sets
  /// outputSpecs() and crops `outputs`, which have the sizes of the plan's.
  absl::Status finishOutputs(std::vector<std::string>& outputs);

 private:
  virtual absl::Status runStep(size_t step) = 0;
  /// The first error of an access by the loops' memory.
  virtual absl::Status memoryStatus() const { return absl::OkStatus(); }

  absl::Status checkFaults();
  absl::Status cropOutputs(std::vector<std::string>& outputs);
  /// The 8-byte number that a buffer holds.
  absl::StatusOr<int64_t> numberIn(int32_t buffer);

  const tessera_module& module_;
  const v1::Plan& plan_;
  const tessera_module_variant& table_;
  LoopMemory& memory_;
  LoopControl loops_;
  std::vector<uint8_t*> addresses_;    // per buffer; null for LOOP buffers
  std::vector<void*> operands_;        // of all steps, one after another
  std::vector<size_t> first_operand_;  // per step
  std::vector<int64_t> runs_;
  std::vector<v1::TensorSpec> output_specs_;
};

/// The positions of the results whose memory overlaps an argument's. The memory plan may give a result the memory of an
/// argument that ends there; kernels assume separate operands. `operands`: addresses, arguments before results;
/// `bytes`: their sizes.
std::vector<size_t> resultsOverArguments(std::span<uint8_t* const> operands, std::span<const int64_t> bytes,
                                         size_t results);

}  // namespace tessera::compiler
