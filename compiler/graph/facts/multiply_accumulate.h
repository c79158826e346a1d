#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Whether the body is exactly out + a * b for the two inputs a and b, in one element type.
bool isMultiplyAccumulate(mlir::linalg::GenericOp op);

/// The same, or with inputs that are widened where they are loaded: halves, integers of 8 bits, whose sign bit may be
/// turned before. What rearranges products does so whatever their elements are.
bool isProduct(mlir::linalg::GenericOp op);

/// Whether a product turns the sign bit of `input`, 0 or 1, before it multiplies: zeros are no zeros there.
bool turnsSign(mlir::linalg::GenericOp op, unsigned input);

/// How a product over integers of 8 bits reads an input.
struct NarrowInput {
  bool is_signed = false;
  bool flipped = false;  ///< the sign bit is turned first
};

/// Whether a product in f32 reads bf16 from both inputs.
bool isBrainProduct(mlir::linalg::GenericOp op);

/// Of a product in 32 bits of two inputs of 8 bits each: how it reads them, in their order. Nothing for another
/// operation.
std::optional<std::pair<NarrowInput, NarrowInput>> narrowProduct(mlir::linalg::GenericOp op);

/// Whether a product in 32 bits reads integers of 16 bits from both inputs (widenProducts).
bool isWidenedProduct(mlir::linalg::GenericOp op);

/// Whether a product is left to an instruction that adds up groups of neighbours, which slices do not know: of integers
/// of 8 or 16 bits, or of bf16 interleaved by two.
bool isLeftToInstruction(mlir::linalg::GenericOp op);

}  // namespace tessera::compiler
