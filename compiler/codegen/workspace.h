#pragma once

#include "compiler/codegen/phases.h"

namespace tessera::compiler::codegen {

/// Temporaries whose lifetimes (in phases) do not overlap share memory; offsets are multiples of 64. When the phases
/// are final.
void planWorkspace(mlir::func::FuncOp func, PhaseList& list);

}  // namespace tessera::compiler::codegen
