#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/slices/fusion_offer.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// Stages of convolutions in Winograd's domain that run slice by slice, each with what moves its input (a change of
/// layout, a padding), with what is done to its result at the same rows (a change of layout, operations on elements),
/// or both: slices move what they are about to read and what they have made while that is near, instead of a pass over
/// memory. Stages keep the slices that the convolution was given (WinogradPrice::slice_rows).
///
/// Decisions of kind "fuse-chain", in microseconds of one core, of what is moved alone: nothing else changes. A step of
/// its own takes `copies` of the chip's prices for each element; in slices, rows of the input that two slices read are
/// moved twice, and each piece of a plane (a line of pixels of one channel) that is written apart counts as a run of
/// memory. Declined with the reason where the stages are not cut into slices or other dimensions than rows are.
///
/// Choices of kind "fuse-chain": "apart" for one form covers the others of the same stages that are not pinned.
std::vector<FusionOffer> stageMovementOffers(const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
                                             fusion::Merging merging = fusion::Merging::kWhereItPays);

}  // namespace tessera::compiler
