#pragma once

#include "compiler/codegen/math/real_expression.h"

namespace tessera::compiler::codegen {

/// x = (4 k + quarter) pi / 2 + rest with |rest| <= pi / 4 but for rounding; `quarter` is whole, within [-2, 2].
struct QuarterTurns {
  Real quarter, rest;
};

/// Where pi / 2 in parts is not enough (math_single, math_double).
inline mlir::Value isFarOut(Real x) { return x.abs().compare(mlir::arith::CmpFPredicate::OGT, x.constant(1e6)); }

/// Payne and Hanek's reduction ("Radian reduction for trigonometric functions", 1983) in real arithmetic: x times
/// pieces of 2 / pi so short that each product is exact, of each what multiples of four leave, and their sum. Of a
/// float, given as f64, and of a double; of an infinity NaN.
QuarterTurns quarterTurnsOfFloat(Real x);
QuarterTurns quarterTurnsOfDouble(Real x);

}  // namespace tessera::compiler::codegen
