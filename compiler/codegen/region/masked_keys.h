#pragma once

#include "compiler/codegen/region/region_slices.h"

/// Keys that a softmax's mask removes from all rows of a slice are not computed: neither their scores, nor their
/// powers, nor their part of the product. Their powers are zero, so the result is that of all keys, as long as what
/// they multiply are numbers (a NaN or an infinity among masked values would be multiplied by zero).
namespace tessera::compiler::codegen {

/// Of the softmax that the last product of `nests` reads, its division deferred; nothing where there is none.
std::optional<SoftmaxScores> scoresOf(const SlicedNests& nests);

/// The same of the last product that reads one, where nothing else reads its scores and powers.
std::optional<SoftmaxScores> closedSoftmax(const SlicedNests& nests);

/// Finds the mask of `softmax`, rewritten by now to whole rows or to `blocks` of keys (otherwise 0), for slices to
/// skip what it removes: `SlicedNests::mask`. None where something else reads the powers, or nothing compares
/// positions.
void findMask(SlicedNests& nests, const SoftmaxScores& softmax, int64_t blocks);

/// Keys that are kept where the nest that writes the scores runs through `loops`: multiples of the mask's piece.
Range keptKeys(const SlicedNests& nests, llvm::ArrayRef<Range> loops);

}  // namespace tessera::compiler::codegen
