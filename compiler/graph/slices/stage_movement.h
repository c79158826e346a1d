#pragma once

#include <vector>

#include "compiler/fusion/decision.h"
#include "compiler/graph/choices.h"
#include "compiler/graph/slices/fusion_candidate.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// Fuses the stages of convolutions in Winograd's domain (input transform, product, output transform) that run slice by
/// slice with the movement of their input (a change of layout, a padding), with the operations on the same rows of
/// their result (a change of layout, elementwise operations), or with both. Slices then move elements while these are
/// in a near cache, without a pass over memory. Stages keep the slices of the convolution (WinogradCost::slice_rows).
///
/// Decisions of kind "fuse-chain", in microseconds of one core, count only the movement, since nothing else changes. A
/// separate step costs `copies` of the chip's cost parameters for each element. In slices, input rows that two slices
/// read are moved twice, and each separately written piece of a plane (a line of pixels of one channel) counts as a run
/// of memory. A candidate is declined, with the reason, if its stages are not cut into slices, or are cut along other
/// dimensions than rows.
///
/// Choices of kind "fuse-chain": "apart" for one variant covers the other variants of the same stages that are not
/// pinned.
std::vector<FusionCandidate> stageMovementCandidates(
    const std::vector<Group>& groups, const Chip& chip, GraphChoices& choices,
    fusion::FusionPolicy fusion_policy = fusion::FusionPolicy::kWhereItPays);

}  // namespace tessera::compiler
