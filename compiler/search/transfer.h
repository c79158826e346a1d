#pragma once

#include <optional>

#include "compiler/search/space.h"

namespace tessera::compiler::search {

/// Transfers the decisions of a tree of a workload with the same operators: returns `start` with the other tree's
/// register tiles, blocks, loop orders, prefetches and stages, nest by nest, limited to known extents. Nothing if the
/// two trees have different nests, or if the result equals `start`. Legality decides whether the result is valid.
std::optional<v1::Schedule> transferSchedule(const v1::Schedule& start, const v1::Schedule& other,
                                             const Extents& extents);

}  // namespace tessera::compiler::search
