#pragma once

#include "compiler/codegen/region/region_slices.h"

namespace tessera::compiler::codegen {

/// Bufferization reuses the memory of a value for a later value of the same shape, once the earlier one is dead. A
/// slice has rows of both within one slice, so that the later value's kept rows would be lost. This function gives each
/// such earlier value a buffer of its own, created by `builder`, if one nest writes it and other nests read it before
/// another nest overwrites all of it. A constant that is copied from a buffer that is overwritten later is written
/// where the copy is.
void splitBufferLifetimes(mlir::OpBuilder& builder, SlicedNests& nests);

}  // namespace tessera::compiler::codegen
