#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/slices/fusion_candidate.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

inline constexpr char kChainChoice[] = "fuse-chain";

/// Predicts whether chains of groups with products that feed each other (attention, two-layer perceptrons, successive
/// convolutions) run faster slice by slice (fusion::decideSlices) than separately. A slice is one block of the chain's
/// outer loops, on which all groups run one after another (slice_plan.h). Returns candidates with their slices
/// (ChainTiling) and decisions of kind "fuse-chain", in microseconds of one core.
///
/// Candidates are up to three products, and up to eight if every shorter chain from the same start gains. Each product
/// is linked to the next by a value that only it reads, through plain views, with at most two groups of rows (softmax,
/// elementwise) in between. A chain may end in the normalization of its rows or in a pool. If others read a sum before
/// the normalization, it is a further result. The same products are proposed in up to four variants:
/// alone, or with the movement of their first operand, of their result, or of both. A target without a clock or with
/// fewer than two memory levels yields none.
///
/// If runs may have less of a dimension (`rows`), the cost of large slices includes the work on elements that such runs
/// do not need.
///
/// Choices of kind "fuse-chain": "apart" for the products alone covers the variants with movements as well.
std::vector<FusionCandidate> chainCandidates(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                             fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays,
                                             const UsedRowAnalysis* rows = nullptr);

}  // namespace tessera::compiler
