#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/slices/fusion_candidate.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

inline constexpr char kRegionChoice[] = "tile-region";

/// Tiling loop fusion over all groups. Candidates are regions of up to four groups with one result, if they are cheaper
/// slice by slice in a core's own memory; none has variants (fusion_candidate.h). Their cost model covers less of a
/// group than those of chains, so a larger gain is required, and it must come from moving less. Decisions of kind
/// "tile-region", in microseconds. If a run may need fewer of a result's rows (`rows`), slices of many rows cost the
/// unneeded work of such runs.
std::vector<FusionCandidate> regionCandidates(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                              fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays,
                                              const UsedRowAnalysis* rows = nullptr);

}  // namespace tessera::compiler
