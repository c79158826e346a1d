#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Simplifies the bodies of elementwise operations and reductions: neutral elements, double negation, signs that
/// cancel, small powers, chains of constant factors and bounds.
///
/// Most rules are exact. The exceptions and their errors:
/// - x + 0 and 0 - x may change the sign of a zero;
/// - x * c1 * c2 becomes x * (c1 c2): one rounding instead of two, when the product is a normal number;
/// - powers by 2, 3, 4, -1 and -2 become products (at most two roundings).
/// Not done on purpose: x / c as x * (1 / c) unless c is a power of two (floor(x / c) of a multiple of c would fall
/// short), x * 0 (NaN, infinity), x - x, any other reassociation of sums.
/// Returns the number of rewrites.
int simplifyAlgebra(mlir::func::FuncOp main);

}  // namespace tessera::compiler
