#pragma once

#include "compiler/fusion/chain.h"

/// Elements that neighbouring slices along a loop share through windows, and that may be kept.
namespace tessera::compiler::fusion {

/// Returns the elements of `tensor` in a slice of `tiles` that the slice before it along `loop` does not have.
int64_t newPoints(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop);

/// Returns the elements of the intermediate `tensor` that a slice needs and the slice before it has computed: the
/// maximum over its readers, which compute only their new elements.
int64_t reusedPoints(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop);

/// Whether slices along `loop` overlap in some intermediate.
bool overlaps(const Chain& chain, const std::vector<int64_t>& tiles, int loop);

}  // namespace tessera::compiler::fusion
