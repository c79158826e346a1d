#pragma once

#include "compiler/backends/cpu/region/region.h"

namespace tessera::compiler::codegen {

/// Finds sequences of passes over the rows of a slice (maximum, exponential, sum of a softmax) that use only the same
/// row of each other's results, and runs them a few rows at a time. A slice is sized for L2; its rows then stay in L1
/// from one pass to the next. Fills RegionVariant::strips. Call before scratch offsets are assigned.
void formStrips(Region& region, const Chip& chip);

}  // namespace tessera::compiler::codegen
