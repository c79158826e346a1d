#pragma once

#include <memory>
#include <vector>

#include "compiler/backends/cpu/instruction/product_instruction.h"

namespace tessera::compiler::codegen {

/// The chip's dot products (target/dot_product.h) that take several rows of results or several groups of the sum at a
/// time: smmla, bfmmla, and any other one whose description places the elements of small matrices in vector registers.
/// Packing and tiling are those of groupedProducts(); the registers are filled by shuffles that the description
/// determines.
std::vector<std::unique_ptr<const ProductInstruction>> matrixProducts(const Chip& chip);

}  // namespace tessera::compiler::codegen
