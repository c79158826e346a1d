#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/ir/loop_op.h"

namespace tessera::compiler {

/// Bodies of the loops of @main as graphs of their own, by loop; plan_writer.h puts their steps where the loop is.
/// Inputs of such a graph are the iteration, what is carried, parts of what is scanned, what is captured; its outputs
/// are the body's results.
using LoopPlans = std::vector<std::pair<LoopOp, PlannedGraph>>;

/// Of `pins` those of places in the body of no loop of `main`. A place there begins with the body's name and ": ".
std::vector<v1::Choice> pinsOutsideOfLoops(mlir::func::FuncOp main, const std::vector<v1::Choice>& pins);

/// Plans them, loops within loops included. Before that what a loop reads gets memory of its own where it has none:
/// constants and slices become part of the body where it reads them as they are, and are copied where they are carried
/// or scanned. Takes the bodies out of the model's module.
absl::StatusOr<LoopPlans> planLoopBodies(mlir::func::FuncOp main, const ImportedModel& model, const v1::Target& target,
                                         const GraphOptions& options);

/// Adds what was decided in the bodies to a report, places named as pins name them.
void addDecisionsOfLoops(LoopPlans& loops, v1::GraphReport& report);

}  // namespace tessera::compiler
