#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Stores a value that is read both padded and unpadded once, padded. Its other readers get the inside of the padded
/// tensor as a slice, which is an offset and strides in their access functions. The producer then writes into the
/// padded buffer; otherwise padding would be a separate copy. Among several paddings of one value with one constant,
/// the largest contains the others if it covers them on every side.
///
/// Applies only to values that a linalg operation computes and that only linalg operations or other paddings read; a
/// result of the model has a buffer of its own. Returns the number of readers redirected.
int sharePads(mlir::func::FuncOp main);

}  // namespace tessera::compiler
