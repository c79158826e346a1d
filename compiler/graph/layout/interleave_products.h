#pragma once

#include <optional>

#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Interleaves the constant operand of 8-bit products by four along the sum, [.., K, N] to [.., K/4, N, 4], or of bf16
/// products by two, [.., K/2, N, 2], so that an instruction that adds groups of neighbours reads whole vectors. The
/// other operand has them adjacent already: the sum runs along its last dimension. A sum whose length is no multiple of
/// the group is filled up with zeros, which copies the other operand, if it has at least half a group's steps. If no
/// operand is constant (the weights and values of attention), the operand with the wrong order is copied where that
/// pays. Does nothing for targets without such an instruction.
/// `bits` is the size of an element: 8, which includes the products that widenProducts() widened to 16 and which are
/// interleaved by two; or 16 for bf16, after 3x3 convolutions could choose Winograd's domain. Returns the number of
/// products.
int interleaveProducts(mlir::func::FuncOp main, const Chip& chip, int bits);

/// Returns the dimension of the operand `input` (0 or 1) that interleaving in groups of `group` elements splits;
/// nothing if it splits none.
std::optional<unsigned> interleavedDimension(mlir::linalg::GenericOp op, unsigned input, int64_t group);

/// Returns the time of a product on an instruction that adds groups, relative to multiply-adds; 1 if it uses none.
double instructedShare(mlir::linalg::GenericOp op, const Chip& chip);

/// Computes the remaining 8-bit products with small sums in single precision, where integers below 2^24 are exact.
/// Multiply-adds then have the target's full width, and a convolution with few channels or one, which no instruction
/// groups, is as fast as in floats. Returns the number of products.
int lowerInt8ToSingle(mlir::func::FuncOp main);

}  // namespace tessera::compiler
