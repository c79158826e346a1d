#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/target/chip.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Tiling loop fusion over all groups: regions of several groups that are cheaper slice by slice in a core's own memory
/// become one group with a ChainTiling. The dynamic programme looks at the whole graph where it is narrow and small,
/// else along the order of the groups; a region has at most kMostRegionNodes of them. Regions taken, and those left
/// because they gain too little or cannot be cut, are returned as decisions of kind "tile-region", in microseconds.
std::vector<v1::Decision> tileRegions(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                      fusion::Merging merging = fusion::Merging::kWhereItPays);

inline constexpr int kMostRegionNodes = 4;

}  // namespace tessera::compiler
