#pragma once

#include "compiler/codegen/region/region.h"

/// Keys that conditions in memory remove: a sequence that is shorter than its range, or padded. What a softmax makes of
/// them is zero in all rows, so that code for whole rows ends at the last piece with a condition that holds, found in
/// each slice. As with masks that are known (masked_keys.h), what they multiply has to be numbers.
namespace tessera::compiler::codegen {

/// Finds the steps of a variant over the keys of `softmax`, and the conditions by which scores are kept: one a key, the
/// same for all rows of a slice. Nothing where something else reads the scores or powers, or a mask is no such one.
std::optional<CountedKeys> countedKeys(const RegionVariant& variant, const SoftmaxScores& softmax);

/// The nest of step `step` (behind counted.first) for the first `keys` keys.
Nest withKeys(const RegionVariant& variant, size_t step, int64_t keys);

}  // namespace tessera::compiler::codegen
