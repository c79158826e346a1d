#pragma once

#include "compiler/backends/cpu/phases.h"

namespace tessera::compiler::codegen {

/// Whether a phase needs a value that another phase has loaded (a scalar read outside of all loops). Phases share
/// memory only, so such a workload cannot be split.
bool phasesShareValues(const PhaseList& list);

/// The whole workload as one phase of plain loops, in program order.
PhaseList mergeIntoOnePhase(mlir::func::FuncOp func);

}  // namespace tessera::compiler::codegen
