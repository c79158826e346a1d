#pragma once

#include "compiler/backends/cpu/phases.h"

namespace tessera::compiler::codegen {

/// Assigns workspace offsets, in multiples of 64 bytes. Temporaries whose lifetimes (in phases) do not overlap share
/// memory. Call when the phases are final.
void planWorkspace(mlir::func::FuncOp func, PhaseList& list);

}  // namespace tessera::compiler::codegen
