#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Whether the body is exactly out + a * b for the two inputs a and b, in one element type.
bool isMultiplyAccumulate(mlir::linalg::GenericOp op);

/// Like isMultiplyAccumulate(), or with inputs that are widened as they are loaded: f16, bf16, or 8-bit integers whose
/// sign bit may be flipped first. Rewrites that rearrange products do not depend on the element type.
bool isProduct(mlir::linalg::GenericOp op);

/// Whether a product flips the sign bit of `input` (0 or 1) before multiplying. A stored zero is then not a zero.
bool flipsSignBit(mlir::linalg::GenericOp op, unsigned input);

/// How a product of 8-bit integers reads an input.
struct NarrowInput {
  bool is_signed = false;
  bool flipped = false;  ///< sign bit flipped first
};

/// Whether a product in f32 reads bf16 from both inputs.
bool isBf16Product(mlir::linalg::GenericOp op);

/// Returns how a 32-bit product of two 8-bit inputs reads them, in their order. Nothing for other operations.
std::optional<std::pair<NarrowInput, NarrowInput>> narrowProduct(mlir::linalg::GenericOp op);

/// Whether a 32-bit product reads 16-bit integers from both inputs (widenProducts).
bool isWidenedProduct(mlir::linalg::GenericOp op);

/// Whether a product is left to an instruction that adds groups of neighbours, which slices do not support: of 8-bit or
/// 16-bit integers, or of bf16 interleaved by two.
bool usesDotProductInstruction(mlir::linalg::GenericOp op);

}  // namespace tessera::compiler
