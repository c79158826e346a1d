#pragma once

#include "compiler/codegen/region/region_slices.h"

namespace tessera::compiler::codegen {

/// Bufferization gives values of one shape one place when their times are apart: a result, then the next one's over it.
/// Rows of a slice are both within one slice, and those of the later value that are kept would be lost. Gives each such
/// earlier value, that one nest writes and others read before another nest writes over all of it, a buffer of its own,
/// which `builder` makes. A constant that is copied from what is written over later is written where the copy is.
void separateRoles(mlir::OpBuilder& builder, SlicedNests& nests);

}  // namespace tessera::compiler::codegen
