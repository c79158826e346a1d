#pragma once

#include "compiler/backends/cpu/region/region.h"

namespace tessera::compiler::codegen {

/// Steps of a region that are passes over the rows of a slice, and which rows of each other's results they use.

/// The loop whose tiles the grid of this step counts; -1 if the step is not a pass over rows.
int rowLoop(const RegionNestRun& step);

/// Whether row r of `later` uses only row r of the results of `earlier`, and vice versa. Both must be passes over rows.
bool sameRows(const RegionNestRun& earlier, const RegionNestRun& later);

/// The number of rows that all of `steps` can process at a time, in whole tiles of each.
int64_t rowUnit(llvm::ArrayRef<RegionNestRun> steps);

/// Bytes that one row of these steps touches.
int64_t rowBytes(llvm::ArrayRef<RegionNestRun> steps);

}  // namespace tessera::compiler::codegen
