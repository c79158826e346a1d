#pragma once

#include <vector>

#include "compiler/cost/bound_tree.h"

namespace tessera::compiler::cost {

/// Which part of the chip a tile uses: at each tile around it whose children run at once, the number of the child.
/// Parts with equal numbers are one, whichever tiles use it in turn.
using Part = std::vector<int>;

/// The part of the instances of `level` that the tile's data is in (a tile of this level is at or around it), or with
/// level -1 of the units that a leaf computes on.
Part partOf(const BoundTree& tree, int tile, int level);

}  // namespace tessera::compiler::cost
