#pragma once

#include "compiler/backends/cpu/bufferize.h"

namespace tessera::compiler::codegen {

/// Registers codegen's steps as passes over a module with one workload:
///   --tessera-normalize  tensor operations to generics, fills and slices
///   --tessera-bufferize  ... and to memrefs, results written in place
///   --tessera-emit       ... and to one function per phase (options vector-bits, vector-registers)
///   --tessera-lower      phases to the LLVM dialect
void registerCodegenPasses();

}  // namespace tessera::compiler::codegen
