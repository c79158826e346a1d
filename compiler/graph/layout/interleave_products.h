#pragma once

#include <optional>

#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Puts four neighbours along a sum of 8-bit products next to each other in the constant operand, [.., K, N] becomes
/// [.., K/4, N, 4], or two along one of bf16, [.., K/2, N, 2], so that an instruction that adds up groups of them reads
/// whole vectors. The other operand has them so: the sum runs along its last dimension. Sums of other than a multiple
/// of a group are filled up with zeros, which copies the other operand, where they have half a group's steps at least.
/// Where no operand is constant (attention's weights and values), one that lies otherwise is copied, if that pays.
/// Does nothing for targets without such an instruction. `bits` of an element: 8, with products of 8 bits that
/// widenProducts() made 16, which are interleaved by two; or 16 for bf16, where 3x3
/// convolutions have had the choice of Winograd's domain before. Returns the number of products.
int interleaveProducts(mlir::func::FuncOp main, const Chip& chip, int bits);

/// The dimension of a product's operand `input`, 0 or 1, that interleaving in groups of so many elements takes apart,
/// if it does so.
std::optional<unsigned> interleavedDimension(mlir::linalg::GenericOp op, unsigned input, int64_t group);

/// The part of the time of multiply-adds that a product takes on an instruction that adds up groups: 1 where it is left
/// to none.
double instructedShare(mlir::linalg::GenericOp op, const Chip& chip);

/// Lets remaining products of 8 bits, whose sums are small, work in single precision: integers below 2^24 are exact
/// there, multiply-adds are as wide as the target's, and a convolution of few channels or of one, which no instruction
/// groups, is as fast as in floats. Returns the number of products.
int multiplyExactlyInSingle(mlir::func::FuncOp main);

}  // namespace tessera::compiler
