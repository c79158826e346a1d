#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Accumulates reductions of f16 or bf16 in f32 and rounds them once, at the end: in 16 bits a sum of some hundred
/// terms stops growing. Maxima and minima do not round and are unchanged. Returns the number of reductions.
int promoteAccumulators(mlir::func::FuncOp main);

/// Lets products, convolutions and other reductions read f16 and bf16 operands directly and widen elements as they are
/// loaded, instead of reading an f32 copy; also through views, transposes, slices and paddings in between. Returns the
/// number of rewrites.
int widenOnLoad(mlir::func::FuncOp main);

}  // namespace tessera::compiler
