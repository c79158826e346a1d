#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// Patterns for requantization (rescaling to integers of few bits): fewer instructions, equal results.
///
/// Replaces a division of f32 by a positive constant, on targets with fused multiply-add. The product with the
/// reciprocal, corrected once by its remainder, is the correctly rounded quotient (Markstein, "Computation of
/// elementary functions on the IBM RISC System/6000 processor", 1990). Infinities, NaN and zeros give the results of a
/// division. For operands below 2^-100 in magnitude the remainder is rounded, and the result may differ by one unit in
/// the last place.
void populateConstantDivisionPatterns(mlir::RewritePatternSet& patterns);

/// Rewrites saturating conversions of floating-point numbers to integers: at most 16 bits from f32, at most 32 bits
/// from f64. In the input, comparisons with the bounds select the lowest or highest integer, and a NaN becomes zero.
/// The rewritten code clamps the number to the bounds, which its type represents exactly, and then converts toward
/// zero. If the number was first rounded to even (with or without an integer constant added), one addition rounds it:
/// the added constant is so large that the sum has no fraction bits. If the integer is converted back to a
/// floating-point number, a subtraction of that constant replaces the conversion.
void populateSaturationPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
