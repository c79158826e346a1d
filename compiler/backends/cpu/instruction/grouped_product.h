#pragma once

#include "compiler/backends/cpu/instruction/product_instruction.h"

namespace tessera::compiler::codegen {

/// The chip's instructions that sum products of groups of neighbours (target/dot_product.h): 8-bit integers in groups
/// of four, bf16 in pairs. Tiling, packing, blocking and prefetching treat a group as one 32-bit element; only the body
/// of the product differs.
std::vector<std::unique_ptr<const ProductInstruction>> groupedProducts(const Chip& chip);

/// Instructions that sum pairs with saturation, for chips without an exact instruction for 8 bits. Steps whose vectors
/// hold a pair that could saturate are detected at run time and use the 16-bit instruction.
std::vector<std::unique_ptr<const ProductInstruction>> saturatingPairProducts(const Chip& chip);

}  // namespace tessera::compiler::codegen
