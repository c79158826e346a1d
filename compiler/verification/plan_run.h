#pragma once

#include <functional>

#include "compiler/graph/graph.h"
#include "compiler/interpreter/interpreter.h"

/// Interpretation of plans.
namespace tessera::compiler::verification {

/// Called with the results that steps [first, last) of a plan leave: one step, or those of an outermost loop after its
/// last iteration.
using StepObserver = std::function<void(int first, int last, const std::vector<interpreter::Array>& results)>;

/// Runs a plan like a runtime: weights at their offsets, steps in order over one arena whose bytes are poisoned in
/// advance, operands at their buffers' offsets, loops according to their trip counts and conditions; each workload is
/// interpreted. Returns the outputs, then the extents. Workloads are parsed in `context`.
absl::StatusOr<std::vector<interpreter::Array>> runPlan(mlir::MLIRContext& context, const PlannedGraph& planned,
                                                        const std::vector<interpreter::Array>& inputs,
                                                        const interpreter::Options& options,
                                                        const StepObserver& observer = nullptr);

}  // namespace tessera::compiler::verification
