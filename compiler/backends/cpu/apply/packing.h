#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/phases.h"
#include "compiler/backends/cpu/tiling/panels.h"
#include "compiler/backends/cpu/tree/parsed_schedule.h"

/// Packing of operands, with the plans of the copies from their leaves.
namespace tessera::compiler::codegen {

/// Carries out the packing that the leaves request: allocates panels in the workspace, inserts a phase that fills them
/// before the phase that reads them, and redirects the reader's access functions to the panels. Errors:
/// INVALID_SCHEDULE when the leaves do not match the copies.
absl::Status packOperands(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule& tree);

}  // namespace tessera::compiler::codegen
