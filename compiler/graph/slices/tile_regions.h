#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/graph/slices/fusion_offer.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

inline constexpr char kRegionChoice[] = "tile-region";

/// Tiling loop fusion over all groups: regions of up to four groups of which only the last one's result is read
/// outside, where they are cheaper slice by slice in a core's own memory, each as a form of its own. Their prices know
/// less of a group than those of chains, so more is asked for, and by moving less. Decisions of kind "tile-region", in
/// microseconds. Where `rows` say that a run may have fewer of a result's rows, slices of many of them are dearer by
/// what such a run computes for nothing.
std::vector<FusionOffer> regionOffers(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                      fusion::Merging merging = fusion::Merging::kWhereItPays,
                                      const RowFacts* rows = nullptr);

}  // namespace tessera::compiler
