#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Finds sequences of passes over the rows of a slice (maximum, exponential, sum of a softmax) that use only the same
/// row of each other's results, and runs them a few rows at a time. A slice is sized for L2; its rows then stay in L1
/// from one pass to the next. Fills RegionVariant::strips. Call before scratch offsets are assigned.
void formStrips(Region& region, const Chip& chip);

/// The loop whose tiles the grid of this step counts; -1 if the step is not a pass over rows.
int rowLoop(const RegionNestRun& step);

/// Whether row r of `later` uses only row r of the results of `earlier`, and vice versa. Both must be passes over rows.
bool sameRows(const RegionNestRun& earlier, const RegionNestRun& later);

/// The number of rows that all of `steps` can process at a time, in whole tiles of each.
int64_t rowUnit(llvm::ArrayRef<RegionNestRun> steps);

}  // namespace tessera::compiler::codegen
