#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/loop_op.h"

namespace tessera::compiler {

/// The planned bodies of the loops of @main, by loop; plan_writer.h inserts their steps at the loop. Inputs of such a
/// graph are the iteration, carried values, parts of scanned tensors, and captured values; its outputs are the body's
/// results.
using LoopPlans = std::vector<std::pair<LoopOp, PlannedGraph>>;

/// Returns the pins that are not for places in loop bodies of `main`. The name of such a place begins with the body's
/// name and ": ".
std::vector<v1::Choice> pinsOutsideLoops(mlir::func::FuncOp main, const std::vector<v1::Choice>& pins);

/// Plans the bodies of all loops, nested ones included, and removes them from the model's module. First gives a loop's
/// operands memory of their own where they have none: constants and slices become part of the body if it reads them
/// unchanged, and are copied if they are carried or scanned.
absl::StatusOr<LoopPlans> planLoopBodies(mlir::func::FuncOp main, const ImportedModel& model, const v1::Target& target,
                                         const GraphOptions& options);

/// Adds the decisions of the bodies to a report, with places named as in pins.
void addDecisionsOfLoops(LoopPlans& loops, v1::GraphReport& report);

}  // namespace tessera::compiler
