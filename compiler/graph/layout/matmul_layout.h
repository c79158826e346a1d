#pragma once

#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Packs constant right-hand sides of matrix products into panels [N/nr, K, nr], so that the innermost loops
/// read them as one stream. nr is two vectors of the chip if that divides N, else one, else half of one; a matrix whose
/// N none of them divides becomes row-major [K, N]. Where there are many rows, half a vector or none is no good: panels
/// are filled up with zeros, elementwise operations that follow compute them as well, and the result is cut.
///
/// The product becomes [M.., N/nr, nr], which is the row-major [M.., N] seen through a view: nothing is moved.
/// Returns the number of products rewritten.
int packMatmuls(mlir::func::FuncOp main, const Chip& chip);

}  // namespace tessera::compiler
