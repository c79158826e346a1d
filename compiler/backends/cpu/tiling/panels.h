#pragma once

#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "mlir/IR/Builders.h"

/// Packing of operands to panels: redirects a nest to a buffer of panels and creates the nests that fill it, without
/// their plans.
namespace tessera::compiler::codegen {

/// A nest that copies an operand to panels.
struct PanelCopy {
  Nest nest;
  llvm::SmallVector<int> loops;  ///< of the reading nest, one per loop of `nest`
  int64_t width = 0;             ///< iterations of a panel
};

/// Redirects input `wanted.input` of `nest` to panels of the whole operand in a new buffer.
PanelCopy moveToPanels(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& wanted);

/// The panels of an operand that is packed `within` blocks.
struct BlockPanels {
  BlockCopy copy;                ///< what moves and is cut; the nests follow from moveToBlockPanels()
  llvm::SmallVector<int> loops;  ///< as PanelCopy::loops
  int64_t width = 0;
};

/// Computes the panels without a change of the nest.
BlockPanels blockPanels(const Nest& nest, const TilePlan& plan, const PackedOperand& packed);

/// Redirects the operand to panels of one block in a new buffer, which is returned, and fills `panels.copy.nests`. The
/// caller plans these nests and adds the copy to the plan.
mlir::Value moveToBlockPanels(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan, const PackedOperand& packed,
                              BlockPanels& panels);

}  // namespace tessera::compiler::codegen
