#pragma once

#include "compiler/import/scalars.h"

/// Functions of one element that several operators share.
namespace tessera::compiler {

/// Returns max(x, bound); keeps a NaN in x. In this form it is one instruction on x86, where arith.maximumf takes
/// three.
mlir::Value atLeast(const Scalars& s, mlir::Value x, mlir::Value bound);
/// Returns min(x, bound) in the same form.
mlir::Value atMost(const Scalars& s, mlir::Value x, mlir::Value bound);
/// Returns 1 / (1 + exp(-x)).
mlir::Value logistic(const Scalars& s, mlir::Value x);

}  // namespace tessera::compiler
