#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler::codegen {

/// Rewrites mathematical functions as arithmetic, so that no library is called: upstream's polynomials in f32
/// (relative error up to about 1e-6, arc functions 6e-6). f16, bf16 and f64 functions are computed in f32.
/// log takes a denormal for the smallest normal number. Powers and remainders: math/powers, math/remainder. What
/// rescaling is made of: math/rescaling.
mlir::LogicalResult expandMath(mlir::ModuleOp module, bool fuses_multiply_add);

}  // namespace tessera::compiler::codegen
