#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler::codegen {

/// Rewrites mathematical functions as arithmetic, so that no library is called: upstream's polynomials in f32 (relative
/// error up to about 1e-6, arc functions 6e-6). f16 and bf16 functions, and f64 functions without a formula in
/// math_double, are computed in f32. log treats a denormal as the smallest normal number. Powers and remainders are in
/// math/powers and math/remainder; operations for rescaling are in math/rescaling.
mlir::LogicalResult expandMath(mlir::ModuleOp module, bool fuses_multiply_add);

}  // namespace tessera::compiler::codegen
