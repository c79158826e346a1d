#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/phases.h"
#include "compiler/backends/cpu/tree/parsed_schedule.h"

/// The part of a tree outside of regions: fused operations, phases, instructions and leaves.
namespace tessera::compiler::codegen {

/// Fuses the operations that the tree lists, and completes the nests. Items that would spill registers if they were
/// fused are marked for reports. Errors: INVALID_SCHEDULE where the operations cannot share a nest.
absl::Status applyFusion(std::vector<WorkItem>& items, const Chip& chip, const ParsedSchedule& tree);

/// The tree's phases, without plans. Errors: INVALID_SCHEDULE where the leaves do not match the nests, or nests of one
/// phase depend on each other.
absl::StatusOr<PhaseList> applyPhases(llvm::ArrayRef<WorkItem> items, const ParsedSchedule& tree);

/// Applies the instructions that the leaves name. Errors: INVALID_SCHEDULE with the leaf's path and the reason, when
/// the target has no such instruction or the nest cannot use it.
absl::Status applyInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule& tree);

/// Reads the nests' plans from the leaves. Errors: INVALID_SCHEDULE, see planOf.
absl::Status applyPlans(PhaseList& list, const Chip& chip, const ParsedSchedule& tree);

}  // namespace tessera::compiler::codegen
