#pragma once

#include <optional>
#include <vector>

#include "compiler/backends/cpu/instruction/product_instruction.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// The chip's instructions that multiply whole tiles (target/tile_product.h). They accept the products that
/// instructions on groups of neighbours accept, at any vector width, provided that one operand has a row loop and the
/// other one a column loop.
std::vector<std::unique_ptr<const ProductInstruction>> tileInstructions(const Chip& chip);

/// The loops of a nest that run within the tiles of such an instruction: rows of the first input, columns of the
/// second, and the sum. The tiles of a macro-tile (kernel/macro_tile.h) follow each other along these loops, and along
/// one outer loop of rows or of columns if there is one (else -1). The outer loop is used where the inner one is at
/// most as long as a tile: image rows, or blocks of channels.
struct MacroTileLoops {
  int row = -1, column = -1, depth = -1;
  int outer_row = -1, outer_column = -1;
};

/// For a nest whose inputs are in the instruction's order; nothing if one of the three loops is missing.
std::optional<MacroTileLoops> macroTileLoopsOf(const Nest& nest);

/// The same for a plan: among the loops with several points in its tile, the last row loop and the one before it;
/// columns are the vector loop. Nothing if more loops of either kind have several points.
std::optional<MacroTileLoops> macroTileLoopsOf(const Nest& nest, const TilePlan& plan);

/// All loop choices for a macro-tile, those of macroTileLoopsOf(nest) first.
std::vector<MacroTileLoops> possibleMacroTileLoops(const Nest& nest);

}  // namespace tessera::compiler::codegen
