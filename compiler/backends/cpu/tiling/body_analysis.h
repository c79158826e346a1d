#pragma once

#include "mlir/IR/Block.h"

/// Properties of an operation's body, computed before any code is emitted.
namespace tessera::compiler::codegen {

/// Whether values of the type are integers, indices or floating-point numbers.
bool isScalarType(mlir::Type type);

/// A load of one element that is the same at every point: a tensor of rank 0 read from a body.
bool isInvariantLoad(mlir::Operation& op);

/// Whether every operation of a linalg body acts element by element, so that the body can be evaluated on whole
/// vectors. Integer division by a non-constant does not qualify: lanes past the end could trap.
bool isVectorizableBody(mlir::Block& body);

/// The approximate number of vector instructions of one evaluation of the body; a mathematical function counts as 16.
int bodyCost(mlir::Block& body);

}  // namespace tessera::compiler::codegen
