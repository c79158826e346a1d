#pragma once

#include "compiler/codegen/instruction/product_instruction.h"

namespace tessera::compiler::codegen {

/// The chip's instructions that add up groups of neighbours (target/dot_product.h): products of 8-bit integers by
/// groups of four, of bf16 by pairs. A group is one element of 32 bits to everything that tiles, packs, blocks and
/// fetches; only the body of the product is another.
std::vector<std::unique_ptr<const ProductInstruction>> groupedProducts(const Chip& chip);

/// Instructions that add up saturating pairs, of chips without an exact one for 8 bits: steps whose vectors hold pairs
/// that could saturate are left to the instruction for 16 bits, as they come.
std::vector<std::unique_ptr<const ProductInstruction>> productsOfPairs(const Chip& chip);

}  // namespace tessera::compiler::codegen
