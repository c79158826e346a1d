#pragma once

#include <optional>

#include "compiler/search/space.h"

namespace tessera::compiler::search {

/// What a tree of a workload with the same operators decides, in a tree of this workload: `start` with the other's
/// register tiles, blocks, order of loops, fetches and stages, nest by nest, cut to the extents where those are known.
/// Nothing where the two trees have other nests, or where nothing of it changes the start. Whether it can be followed
/// is Legality's to say.
std::optional<v1::Schedule> carriedOver(const v1::Schedule& start, const v1::Schedule& other, const Extents& extents);

}  // namespace tessera::compiler::search
