#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/slices/fusion_candidate.h"
#include "compiler/target/chip.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Returns all candidate chains (fuse_chains.h) and regions (tile_regions.h) of the groups. If a chain has exactly the
/// groups of a region, only the chain is returned, since the cost model of chains models products better.
std::vector<FusionCandidate> fusionCandidates(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                              fusion::FusionPolicy fusion_policy, const UsedRowAnalysis* rows);

/// Selects the candidates (fusionCandidates) that together gain most beyond the errors of their predicted times
/// (fusion/selection.h). Writes the slices (ChainTiling) into the groups. Returns every decision with its figures, in
/// microseconds of one core. If too many candidates overlap for an exact selection, a last decision of kind "fusion"
/// bounds what a better one could gain.
///
/// Candidates are selected in two rounds. A candidate that ends in the normalization of rows, where another candidate
/// continues, takes part in the second round only, on the groups that the first one leaves: its predicted time does not
/// include the loss of the other candidate, which would have to do without these rows.
///
/// Candidates that a pin fuses are taken first; those that a pin keeps apart are skipped. `rows`: the parts that runs
/// of smaller sizes need.
std::vector<v1::Decision> chooseFusions(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                        fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays,
                                        const UsedRowAnalysis* rows = nullptr);

}  // namespace tessera::compiler
