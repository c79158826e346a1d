#pragma once

#include <functional>

#include "compiler/graph/graph.h"
#include "compiler/interpreter/interpreter.h"

/// Plans, interpreted.
namespace tessera::compiler::verification {

/// What steps [first, last) of a plan left for others: one step, or those of an outermost loop after its last
/// iteration.
using StepObserver = std::function<void(int first, int last, const std::vector<interpreter::Array>& results)>;

/// Runs a plan as a runtime would: weights at their offsets, steps in order over one arena whose bytes are poisoned
/// beforehand, operands at their buffers' offsets, loops as often as their trip counts and conditions say; each
/// workload is interpreted. Returns the outputs, then the extents. `context` is where workloads are parsed.
absl::StatusOr<std::vector<interpreter::Array>> runPlan(mlir::MLIRContext& context, const PlannedGraph& planned,
                                                        const std::vector<interpreter::Array>& inputs,
                                                        const interpreter::Options& options,
                                                        const StepObserver& observer = nullptr);

}  // namespace tessera::compiler::verification
