#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/target/chip.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Merges groups with products that feed each other (attention, two-layer perceptrons, convolutions in a row) into one
/// where running them slice by slice is cheaper on `target` than one after another, and writes into the group how
/// (ChainTiling). Each is decided by fusion::decideSlices from what the groups' access functions say; every decision,
/// taken or declined, is returned with its figures, kind "fuse-chain", in microseconds of one core.
///
/// Candidates are linked by a value that only the next group reads, through plain views, with at most two groups of
/// rows (softmax, elementwise) in between. Where candidates overlap, the larger gain wins. A target that states no
/// clock or fewer than two memory levels decides nothing.
///
/// Choices of kind "fuse-chain": "apart" for the products covers them with what moves their operands as well.
std::vector<v1::Decision> fuseChains(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                     fusion::Merging merging = fusion::Merging::kWhereItPays);

}  // namespace tessera::compiler
