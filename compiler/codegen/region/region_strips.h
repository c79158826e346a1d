#pragma once

#include "compiler/codegen/region/region.h"

namespace tessera::compiler::codegen {

/// Finds runs of passes over the rows of a slice (maximum, exponential, sum of a softmax) that need only their own row
/// of each other, and lets them run a few rows at a time: a slice is as large as L2 allows, its rows then stay in L1
/// from one pass to the next. Fills RegionVariant::strips; to be called before scratch is placed.
void formStrips(Region& region, const Machine& machine);

}  // namespace tessera::compiler::codegen
