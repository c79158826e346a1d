#pragma once

#include "compiler/backends/cpu/region/region.h"

/// Skips keys of attention (columns of the scores) that conditions in memory remove: the sequence is shorter than its
/// maximal length, or padded. Softmax gives such keys the weight zero in all rows. Code for whole rows therefore stops
/// after the last group of keys with a true condition; each slice finds that group at run time. As with static masks
/// (masked_keys.h), the values at removed keys must be finite.
namespace tessera::compiler::codegen {

/// Finds the steps of a variant that run over the keys of `softmax`, and the conditions by which scores are kept: one
/// per key, the same for all rows of a slice. Nothing if another nest reads the scores or powers, or if the mask is not
/// of this kind.
std::optional<DynamicKeyRange> findDynamicKeyRange(const RegionVariant& variant, const SoftmaxScores& softmax);

/// The nest of step `step` (a position relative to counted.first) for the first `keys` keys.
Nest withKeyCount(const RegionVariant& variant, size_t step, int64_t keys);

}  // namespace tessera::compiler::codegen
