#pragma once

#include <optional>

#include "compiler/codegen/instruction/product_instruction.h"

namespace tessera::compiler::codegen {

/// The chip's instructions that multiply whole tiles (target/tile_product.h). They take up what instructions on groups
/// of neighbours do, whatever the vectors, where one operand has rows of its own and the other one columns.
std::vector<std::unique_ptr<const ProductInstruction>> tileInstructions(const Chip& chip);

/// Which loops of a product in groups run within tiles: rows of the first input, columns of the second, and the sum.
struct TileLoops {
  int row, column, depth;
};

/// Of a nest whose inputs stand in the instruction's order; nothing where some loop is missing.
std::optional<TileLoops> tileLoopsOf(const Nest& nest);

}  // namespace tessera::compiler::codegen
