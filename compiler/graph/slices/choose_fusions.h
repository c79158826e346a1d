#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/slices/fusion_offer.h"
#include "compiler/target/chip.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// All chains (fuse_chains.h) and regions (tile_regions.h) that the groups offer. A region of exactly the groups that a
/// chain prices is left to that chain, which knows products better.
std::vector<FusionOffer> fusionOffers(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                      fusion::Merging merging, const RowFacts* rows);

/// Which groups run as one slice by slice: of all that is offered (fusionOffers), those that together gain most beyond
/// the errors of their prices (fusion/selection.h). Writes into the groups how (ChainTiling), and returns every
/// decision with its figures, in microseconds of one core; where too many overlap to look at every choice, a last one
/// of kind "fusion" says how much more another choice could gain at most. What ends in rows that another offer goes on
/// from is chosen from what that one leaves: the rows are gone there as well.
///
/// What a pin wants fused is taken before all others, what it wants apart is not looked at. `rows`: what runs of fewer
/// need.
std::vector<v1::Decision> chooseFusions(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                        fusion::Merging merging = fusion::Merging::kWhereItPays,
                                        const RowFacts* rows = nullptr);

}  // namespace tessera::compiler
