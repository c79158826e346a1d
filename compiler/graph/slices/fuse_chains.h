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
/// Candidates are up to three products, each linked to the next by a value that only it reads, through plain views,
/// with at most two groups of rows (softmax, elementwise) in between, or products that end in the normalization of
/// their rows or a pool; what others read of a sum before it is a further result. Where candidates overlap, the longer
/// chain is taken, then the larger gain. A target that states no
/// clock or fewer than two memory levels decides nothing.
///
/// Choices of kind "fuse-chain": "apart" for the products covers them with what moves their operands as well.
std::vector<v1::Decision> fuseChains(std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                     fusion::Merging merging = fusion::Merging::kWhereItPays);

}  // namespace tessera::compiler
