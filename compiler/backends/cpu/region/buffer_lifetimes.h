#pragma once

#include "compiler/backends/cpu/region/region_slices.h"

namespace tessera::compiler::codegen {

/// Bufferization reuses the memory of a value for a later value of the same shape, once the earlier one is dead. Within
/// one slice both values are alive in that buffer: writing the earlier one overwrites rows of the later one that the
/// previous slice left. This function gives the earlier value a buffer of its own, created by `builder`. It does so if
/// one nest writes the value, other nests read it, and a later nest overwrites all of it. A constant fill that is
/// copied from a shared buffer is repeated at the destination instead, so that the copy does not read the shared
/// buffer.
void splitBufferLifetimes(mlir::OpBuilder& builder, SlicedNests& nests);

}  // namespace tessera::compiler::codegen
