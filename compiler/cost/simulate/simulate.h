#pragma once

#include "compiler/cost/dataflow.h"

namespace tessera::compiler::cost {

/// The most accesses of elements, and steps of leaves one after another, that one simulated run may have: minutes, and
/// a gigabyte.
inline constexpr double kMaxSimulatedAccesses = 1e9, kMaxSimulatedSteps = 1e6;

/// The figures of a dataflow by execution, step by step, with sets of elements in every buffer and a time for every
/// transfer and computation. It has the bound tree and the machine in common with analyzeDataflow(), and no formula.
/// clients/docs/design/dataflow-analysis.md states what a chip does. Errors are those of analyzeDataflow(), and
/// INVALID_ARGUMENT if the run exceeds one of these limits.
absl::StatusOr<DataflowCost> simulateDataflow(const loopnest::Nest& nest, const v1::Schedule& tree,
                                              const Machine& machine);

}  // namespace tessera::compiler::cost
