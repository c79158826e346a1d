#pragma once

#include "mlir/IR/Block.h"

/// Questions about the body of an operation, before any code is emitted.
namespace tessera::compiler::codegen {

bool isScalarType(mlir::Type type);

/// A load of one element that is the same at every point: a tensor of rank 0 read from a body.
bool isInvariantLoad(mlir::Operation& op);

/// Whether every operation of a linalg body acts on its operands element by element, so that the body can be
/// evaluated on whole vectors. Integer division by a non-constant is not: lanes past the end would trap.
bool isVectorizableBody(mlir::Block& body);

/// How many vector instructions one evaluation of the body is about.
int bodyCost(mlir::Block& body);

}  // namespace tessera::compiler::codegen
