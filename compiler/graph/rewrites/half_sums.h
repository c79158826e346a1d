#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets reductions whose sums or products are f16 or bf16 build them up in f32 and round them once, at the end: in its
/// own type a sum of some hundred terms stands still. Maxima and minima, which do not round, stay as they are.
/// Returns the number of reductions.
int sumHalvesInSingle(mlir::func::FuncOp main);

/// Lets products, convolutions and other reductions read f16 and bf16 operands in their own type and widen them where
/// they are loaded, instead of reading an f32 copy; through views, transposes, slices and paddings in between.
/// Returns the number of rewrites.
int widenOnLoad(mlir::func::FuncOp main);

}  // namespace tessera::compiler
