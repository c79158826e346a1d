#pragma once

#include <vector>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/tiling/panels.h"
#include "compiler/backends/cpu/tree/leaf.h"

/// Decisions about one nest outside of regions.
namespace tessera::compiler::codegen {

/// Lets the nest use an instruction of the target: of each kind the first one that applies, among kinds the one whose
/// kernel takes the fewest cycles. Unchanged if none applies.
void rewriteForInstruction(mlir::OpBuilder& builder, Nest& nest, const Chip& chip);

/// The phase of leaves that run one after another. A phase of one nest is that nest, without a node around it.
v1::Tile phaseOf(std::vector<v1::Tile> leaves);

/// Settles what the plans of all nests have in common, regions included: interleaving, and the form that a tree must
/// have, without settings that have no effect.
void completePlan(const Nest& nest, const Chip& chip, TilePlan& plan);

/// The leaf of nest `number`: plain loops if `request.scalar`, else instruction, kernel, tile, blocks and packing by
/// analysis. Appends the leaves of the copies before the nest to `copies`.
v1::Tile decideNest(mlir::OpBuilder& builder, Nest nest, int number, const Chip& chip, const ScheduleRequest& request,
                    std::vector<v1::Tile>& copies);

}  // namespace tessera::compiler::codegen
