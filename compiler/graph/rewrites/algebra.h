#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Algebra on the bodies of elementwise operations and reductions: neutral elements, double negation, signs that
/// cancel, small powers, chains of constant factors and bounds.
///
/// Most rules are exact. Those that are not, and how far they go:
/// - x + 0 and 0 - x may change the sign of a zero;
/// - x * c1 * c2 becomes x * (c1 c2): one rounding instead of two, when the product is a normal number;
/// - powers by 2, 3, 4, -1 and -2 become products (at most two roundings).
/// Deliberately not done: x / c as x * (1 / c) unless c is a power of two (floor(x / c) of a multiple of c would
/// fall short), x * 0 (NaN, infinity), x - x, any other reassociation of sums.
/// Returns the number of rewrites.
int simplifyAlgebra(mlir::func::FuncOp main);

}  // namespace tessera::compiler
