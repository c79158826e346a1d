#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/facts/rows.h"
#include "compiler/graph/slices/fusion_offer.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

inline constexpr char kChainChoice[] = "fuse-chain";

/// Groups with products that feed each other (attention, two-layer perceptrons, convolutions in a row), priced by
/// fusion::decideSlices from what the groups' access functions say: slice by slice, and how (ChainTiling), against one
/// after another. Decisions of kind "fuse-chain", in microseconds of one core.
///
/// Candidates are up to three products, and up to eight where every shorter one that begins in the same place gains,
/// each linked to the next by a value that only it reads, through plain views, with at most two groups of rows
/// (softmax, elementwise) in between, or products that end in the normalization of their rows or a pool; what others
/// read of a sum before it is a further result. Forms of one site are the products alone, and with what moves their
/// first operand, their result, or both. A target that states no clock or fewer than two memory levels offers nothing.
///
/// Where `rows` says that runs may have less of a dimension, large slices of it are priced by what they compute in
/// vain.
///
/// Choices of kind "fuse-chain": "apart" for the products covers them with what moves their operands as well.
std::vector<FusionOffer> chainOffers(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                     fusion::Merging merging = fusion::Merging::kWhereItPays,
                                     const RowFacts* rows = nullptr);

}  // namespace tessera::compiler
