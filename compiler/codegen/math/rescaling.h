#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// The operations of rescaling to few bits (requantization), in few instructions with the same results.
///
/// This pattern divides f32 by a positive constant, where multiply-adds are fused: the product with the reciprocal,
/// corrected once by its remainder, is the correctly rounded quotient (Markstein, "Computation of elementary functions
/// on the IBM RISC System/6000 processor", 1990). Infinities, NaN and zeros give the results of a division. If the
/// operand is below 2^-100 in magnitude the remainder is rounded, and the result may be off by one number.
void populateConstantDivisionPatterns(mlir::RewritePatternSet& patterns);

/// Conversion of a real number to an integer of at most 16 bits (at most 32 from f64), toward zero, saturating, NaN to
/// zero, which a body expresses by comparisons with the bounds. The number is clamped to the bounds, which are exact in
/// its type, and then converted. A number that was first rounded to even, with an integer constant added, is clamped
/// and rounded by one addition that leaves no room for a fraction; if the integer is converted back to a real, the
/// subtraction undoes it.
void populateSaturationPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
