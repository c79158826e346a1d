#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler::codegen {

/// What rescaling to few bits is made of, in few instructions with the same results.
///
/// f32 divided by a positive constant, where multiply-adds are fused: the product with the reciprocal, corrected once
/// by its remainder, is the quotient rounded to nearest (Markstein, "Computation of elementary functions on the IBM
/// RISC System/6000 processor", 1990). Infinities, NaN and zeros keep what a division makes of them; where the operand
/// is below 2^-100 in magnitude the remainder is rounded, and the result may be the next number.
void populateConstantDivisionPatterns(mlir::RewritePatternSet& patterns);

/// A real number to an integer of at most 16 bits (at most 32 from f64), toward zero, saturating, NaN to zero, as a
/// body says it by comparisons with the bounds: cut at the bounds first, which are numbers of the type, then converted.
/// A number that was rounded to even before, with a whole constant added to it, is cut and rounded by one addition that
/// leaves no room for a fraction; where the integer is made real again, by the other way around.
void populateSaturationPatterns(mlir::RewritePatternSet& patterns);

}  // namespace tessera::compiler::codegen
