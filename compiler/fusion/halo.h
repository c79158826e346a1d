#pragma once

#include "compiler/fusion/chain.h"

/// Slices that follow each other along a loop: what windows let them share, and so may be kept.
namespace tessera::compiler::fusion {

/// Elements of `tensor` in a slice of `tiles` that the one before it along `loop` does not have.
int64_t addedPoints(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop);

/// Elements of the intermediate `tensor` that a slice needs and the one before it has left: the most that one of its
/// readers needs, which computes nothing but what it adds itself.
int64_t keptPoints(const Chain& chain, int tensor, const std::vector<int64_t>& tiles, int loop);

/// Whether slices along `loop` overlap in some intermediate.
bool overlaps(const Chain& chain, const std::vector<int64_t>& tiles, int loop);

}  // namespace tessera::compiler::fusion
