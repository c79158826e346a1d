#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// A value that is read padded and as it is lives once, padded: the other readers get the inside of the padded
/// tensor as a slice, which is an offset and strides in their access functions. The operation that computes the value
/// then writes it into the padded buffer itself; otherwise padding would be a copy of its own. Of several paddings of
/// one value with one constant, the largest holds the others if it covers them on every side.
///
/// Only values that a linalg operation computes, read by linalg operations or other paddings alone; a result of the
/// model has a buffer of its own. Returns the number of readers redirected.
int sharePads(mlir::func::FuncOp main);

}  // namespace tessera::compiler
