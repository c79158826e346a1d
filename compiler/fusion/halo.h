#pragma once

#include "compiler/fusion/chain.h"

/// Elements that neighbouring slices along a loop share through windows, and that may be kept.
namespace tessera::compiler::fusion {

/// Returns the number of elements of `tensor` in a slice of `tiles` that the slice before it along `loop` does not
/// have. A dimension that does not depend on `loop` counts in full, so a tensor without `loop` counts as new in every
/// slice.
int64_t newElements(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop);

/// Returns the number of elements of the intermediate `tensor` that a slice needs and the slice before it has computed.
/// Each reader computes only its new elements; the result is the maximum over the readers.
int64_t haloElements(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop);

/// Whether slices along `loop` overlap in some intermediate.
bool overlaps(const Chain& chain, const std::vector<int64_t>& tiles, int loop);

}  // namespace tessera::compiler::fusion
