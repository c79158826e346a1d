#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Finds runs of passes over the rows of a slice (maximum, exponential, sum of a softmax) that need only their own row
/// of each other, and lets them run a few rows at a time: a slice is as large as L2 allows, its rows then stay in L1
/// from one pass to the next. Fills RegionVariant::strips; to be called before scratch is placed.
void formStrips(Region& region, const Chip& chip);

/// The loop whose tiles the grid of this step counts; -1 where it is no pass over rows.
int rowLoop(const RegionStep& step);

/// Whether row r of `later` needs only row r of what `earlier` makes, and the other way round. Both are passes over
/// rows.
bool sameRows(const RegionStep& earlier, const RegionStep& later);

/// Rows that all of `steps` can take at a time, in whole tiles of each.
int64_t rowUnit(llvm::ArrayRef<RegionStep> steps);

}  // namespace tessera::compiler::codegen
