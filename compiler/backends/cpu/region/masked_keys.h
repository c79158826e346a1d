#pragma once

#include "compiler/backends/cpu/region/region_slices.h"

/// Skips masked keys of attention. A key is a column of the score matrix S in softmax(S) V; a power is exp(score -
/// maximum). If the mask removes a key from all rows of a slice, the slice computes neither its scores nor its powers
/// nor its part of the product. Such powers are zero, so the result equals that over all keys, provided that the
/// removed rows of V are finite (otherwise a NaN or an infinity would be multiplied by zero).
namespace tessera::compiler::codegen {

/// The scores of the softmax that the last product of `nests` reads, with its division deferred; nothing if there is
/// none.
std::optional<SoftmaxScores> scoresOf(const SlicedNests& nests);

/// The scores of the last softmax that a product reads. Unlike scoresOf, the product need not be the last one; but no
/// nest outside of the softmax and that product may read the scores or powers.
std::optional<SoftmaxScores> softmaxWithUnsharedScores(const SlicedNests& nests);

/// Finds the mask of `softmax`, and sets `SlicedNests::mask`, so that slices skip the keys that it removes.
/// `block_keys`: keys per block if runSoftmaxInBlocks has rewritten the softmax; 0 if it runs over whole rows. No mask
/// is set if another nest reads the powers, or no comparison of positions is found.
void findPositionMask(SlicedNests& nests, const SoftmaxScores& softmax, int64_t block_keys);

/// The keys that remain if the groups of keys that the mask removes at both ends are dropped; at least one group
/// remains. `loops`: the range that each loop of the nest that writes the scores runs.
Range unmaskedKeys(const SlicedNests& nests, llvm::ArrayRef<Range> loops);

}  // namespace tessera::compiler::codegen
