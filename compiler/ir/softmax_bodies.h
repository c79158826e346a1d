#pragma once

#include "mlir/IR/Block.h"

/// The bodies that a softmax over rows is made of, whatever walks the rows: linalg operations of the graph, nests of
/// code generation. Arguments are the operands in order, then what has been made so far.
namespace tessera::compiler {

/// exp(a0 - a1).
bool isPowerBody(mlir::Block& body);
/// a0 / a1.
bool isQuotientBody(mlir::Block& body);
/// The sum, or the larger one, of a0 and what there is so far, a1.
bool isSumBody(mlir::Block& body);
bool isMaximumBody(mlir::Block& body);

}  // namespace tessera::compiler
