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

/// This pattern rewrites saturating conversions of real numbers to integers: at most 16 bits from f32, at most 32 bits
/// from f64. In the input, comparisons with the bounds select the lowest or highest integer, and a NaN becomes zero.
/// The rewritten code clamps the number to the bounds, which are exact in its type, and then converts it toward zero.
/// If the number was first rounded to even, with or without an integer constant added, one addition rounds it: the
/// added constant is so large that the sum has no bits for a fraction. If the integer is converted back to a real
/// number, a subtraction of that constant replaces the conversion.
void populateSaturationPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
