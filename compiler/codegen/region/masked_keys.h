#pragma once

#include "compiler/codegen/region/region_slices.h"

/// Keys that a softmax's mask removes from all rows of a slice are not computed: neither their scores, nor their
/// powers, nor their part of the product. Their powers are zero, so the result equals that over all keys, provided that
/// the values they multiply are finite (otherwise a NaN or an infinity would be multiplied by zero).
namespace tessera::compiler::codegen {

/// The scores of the softmax that the last product of `nests` reads, with its division deferred; nothing if there is
/// none.
std::optional<SoftmaxScores> scoresOf(const SlicedNests& nests);

/// The same for the last product that reads such a softmax, provided that no other nest reads its scores and powers.
std::optional<SoftmaxScores> softmaxWithPrivateScores(const SlicedNests& nests);

/// Finds the mask of `softmax`, already rewritten to whole rows (blocks = 0) or to `blocks` of keys, and sets
/// `SlicedNests::mask`, so that slices skip the keys that it removes. No mask is set if another nest reads the powers,
/// or no comparison of positions is found.
void findPositionMask(SlicedNests& nests, const SoftmaxScores& softmax, int64_t blocks);

/// The keys that are kept when the nest that writes the scores runs through `loops`, rounded to multiples of the mask's
/// piece.
Range unmaskedKeys(const SlicedNests& nests, llvm::ArrayRef<Range> loops);

}  // namespace tessera::compiler::codegen
