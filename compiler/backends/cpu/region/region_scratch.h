#pragma once

#include "compiler/backends/cpu/region/region.h"

namespace tessera::compiler::codegen {

/// Assigns the buffers of a region (given with their bytes) offsets in the thread's scratch: region.scratch and
/// region.scratch_bytes. Buffers of nests that do not run in every slice, and those with kept rows, own their memory
/// throughout; the others share by lifetime. The result of an elementwise nest reuses the memory of an operand that
/// this nest reads last. `nests`: the number of nests of the region. Unused buffers get no offset.
void placeRegionScratch(Region& region, llvm::ArrayRef<std::pair<mlir::Value, int64_t>> buffers, int nests);

}  // namespace tessera::compiler::codegen
