#pragma once

#include "compiler/backends/cpu/math/real_expression.h"

namespace tessera::compiler::codegen {

/// x = (4 k + quarter) pi / 2 + rest, up to rounding, with |rest| <= pi / 4; `quarter` is an integer in [-2, 2].
struct TrigReduction {
  Real quarter, rest;
};

/// True where |x| is so large that subtracting multiples of pi / 2 in parts is not accurate enough (math_single,
/// math_double).
inline mlir::Value needsPayneHanek(Real x) { return x.abs().compare(mlir::arith::CmpFPredicate::OGT, x.constant(1e6)); }

/// Argument reduction by Payne and Hanek ("Radian reduction for trigonometric functions", 1983) in real arithmetic:
/// multiplies x by pieces of 2 / pi so short that each product is exact, reduces each product modulo four, and adds
/// them up. For a float given as f64, and for a double; an infinity gives NaN.
TrigReduction reduceFloatByPayneHanek(Real x);
TrigReduction reduceDoubleByPayneHanek(Real x);

}  // namespace tessera::compiler::codegen
