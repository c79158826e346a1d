#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler::codegen {

/// Rewrites mathematical functions as arithmetic, so that no library is called. f32 and f64 functions use the formulas
/// of math_single.h and math_double.h, which state their error bounds. MLIR's polynomial approximations compute the f32
/// functions that math_single does not cover, such as atan, asin, acos, cbrt and log2, with relative errors up to 6e-6.
/// f16 and bf16 functions, and f64 functions without a formula in math_double, are computed in f32. Powers and
/// remainders are in powers.h and remainder.h, operations for rescaling in rescaling.h. `fuses_multiply_add`: the
/// target has a fused multiply-add instruction.
mlir::LogicalResult expandMath(mlir::ModuleOp module, bool fuses_multiply_add);

}  // namespace tessera::compiler::codegen
