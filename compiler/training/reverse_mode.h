#pragma once

#include "absl/status/status.h"
#include "compiler/training/adjoints.h"

namespace tessera::compiler::training {

/// Adds the gradients of everything that a function's results depend on, at the end of its body: from the gradients
/// that `adjoints` has, in reverse order of the operations. Named structured operations become general ones.
/// Fails with UNSUPPORTED_OPERATOR at the first node that has no rule.
absl::Status differentiate(mlir::func::FuncOp main, Adjoints& adjoints, llvm::ArrayRef<mlir::Operation*> forward);

/// Turns named structured operations into general ones, which have one rule.
void generalizeNamed(mlir::func::FuncOp main);

}  // namespace tessera::compiler::training
