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

/// Of a product in 32 bits of two inputs of 8 bits each: how it reads them, in their order. Nothing for another
/// operation.
std::optional<std::pair<NarrowInput, NarrowInput>> narrowProduct(mlir::linalg::GenericOp op);

}  // namespace tessera::compiler
