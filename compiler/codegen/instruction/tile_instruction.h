#pragma once

#include <optional>
#include <vector>

#include "compiler/codegen/instruction/product_instruction.h"
#include "compiler/codegen/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// The chip's instructions that multiply whole tiles (target/tile_product.h). They take up what instructions on groups
/// of neighbours do, whatever the vectors, where one operand has rows of its own and the other one columns.
std::vector<std::unique_ptr<const ProductInstruction>> tileInstructions(const Chip& chip);

/// Which loops of a product in groups run within tiles: rows of the first input, columns of the second, and the sum.
/// The tiles of a piece follow each other along these, and along one more loop of either kind, where there is one (else
/// -1): rows of an image as short as a tile, blocks of channels as narrow.
struct TileLoops {
  int row = -1, column = -1, depth = -1;
  int outer_row = -1, outer_column = -1;
};

/// Of a nest whose inputs stand in the instruction's order; nothing where some loop is missing.
std::optional<TileLoops> tileLoopsOf(const Nest& nest);

/// The same as a plan has it: of the loops with several points in its tile the last one of rows, and what comes before
/// it; columns are the vector loop. Nothing where more loops of either kind have several points.
std::optional<TileLoops> tileLoopsOf(const Nest& nest, const TilePlan& plan);

/// All that a piece may be made of, the loops of tileLoopsOf(nest) first.
std::vector<TileLoops> possibleTileLoops(const Nest& nest);

}  // namespace tessera::compiler::codegen
