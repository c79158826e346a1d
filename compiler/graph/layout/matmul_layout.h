#pragma once

#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Packs constant right-hand sides of matrix products into panels [N/nr, K, nr], so that the innermost loops read one
/// stream. nr is two vectors of the chip if that divides N, else one, else half of one; a matrix whose N none of these
/// divides becomes row-major [K, N]. With many rows, half vectors and unpacked matrices are too slow: panels are then
/// filled up with zeros, following elementwise operations compute the fill as well, and the result is cut.
///
/// The product becomes [M.., N/nr, nr], a view of the row-major [M.., N], so nothing is moved. Returns the number of
/// products rewritten.
int packMatmuls(mlir::func::FuncOp main, const Chip& chip);

}  // namespace tessera::compiler
