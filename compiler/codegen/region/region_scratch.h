#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Gives the buffers (with their bytes) of a region their places in the thread's scratch: region.scratch and
/// region.scratch_bytes. Buffers of nests that do not run in every slice, and those of which slices keep rows, keep
/// their place all the time, the others share; what an elementwise nest makes of a buffer it is the last to read lies
/// over that buffer. `nests`: how many the region has. Buffers nobody touches get no place.
void placeRegionScratch(Region& region, llvm::ArrayRef<std::pair<mlir::Value, int64_t>> buffers, int nests);

}  // namespace tessera::compiler::codegen
