#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/plan/loop_bodies.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// Turns groups into distinct workloads, steps, buffers with offsets, and placed weights.
///
/// Model outputs are written straight to the caller's buffers; an output that no group computes (an input passed
/// through, a constant, a value returned twice) gets a copy step. A view shares its source's offset. Parts of a
/// concatenation are computed in place. An elementwise step overwrites an operand that dies in it, and a product's step
/// overwrites the operand that is added to its sums (in_place_results.h): decisions of kind "in-place". A loop becomes
/// the steps of its body, whose plan is in `loops`. Of `states` that grow, the plan gets the steps that append new rows
/// where it can (state_steps.h).
absl::StatusOr<PlannedGraph> writePlan(const ImportedModel& model, std::vector<Group> groups, const Chip& chip,
                                       const LoopPlans& loops, const std::vector<v1::State>& states = {});

}  // namespace tessera::compiler
