#pragma once

#include <vector>

#include "compiler/intrinsic/tiling_choice.h"

namespace tessera::compiler::simulator {

/// Tilings of a mapping from the dataflow search (compiler/dataflow_search): the best tree that it finds within a fixed
/// amount of work, and the `most` - 1 best before it. The problem has one loop for each dimension of the tiling and one
/// iteration for each call of the instruction. Its chip has the levels of costLevelsOf(); the buffers of the
/// instruction's operands are one level of their total capacity. Spatial loops of any level become parts of the last
/// level's loops, which units share. Deterministic. Empty if the search does not accept the problem or finds no tree.
std::vector<intrinsic::Choice> searchedTilings(const intrinsic::Choice& choice, const v1::Target& target, size_t most);

}  // namespace tessera::compiler::simulator
