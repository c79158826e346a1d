#pragma once

#include <vector>

#include "compiler/intrinsic/tiling_choice.h"

namespace tessera::compiler::simulator {

/// `tiling` with other blocks of dimension d at level l, limited to the extent; outer levels hold at least as many,
/// inner ones at most.
intrinsic::Tiling withBlocks(intrinsic::Tiling tiling, size_t l, size_t d, int64_t blocks);

/// Tilings of a mapping with low predicted costs, best first, at most `most`; all differ. Descends from several starts:
/// the choice's own tiling, and tiles that are filled with reductions, with parallel dimensions, or with both in turn.
/// A step doubles or halves the blocks of one dimension at one level, or does both with two dimensions. Deterministic.
std::vector<intrinsic::Choice> tilingsOf(const intrinsic::Choice& choice, const v1::Target& target, size_t most);

}  // namespace tessera::compiler::simulator
