#pragma once

#include "absl/status/status.h"
#include "compiler/import/emitter.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler::training {

/// The gradients of a function's tensors while it is differentiated in reverse.
class Adjoints {
 public:
  /// Marks what depends on one of `variables`: floating-point tensors of `main`.
  Adjoints(mlir::func::FuncOp main, llvm::ArrayRef<mlir::Value> variables);

  /// Whether the tensor depends on a variable.
  bool depends(mlir::Value tensor) const { return depends_.contains(tensor); }
  /// Whether the operation reads such a tensor, also inside its body.
  bool readsDependent(mlir::Operation& op) const;

  /// Adds a part of the tensor's gradient, at the emitter's insertion point; nothing for a tensor that depends on no
  /// variable.
  void add(Emitter& e, mlir::Value tensor, mlir::Value part);
  /// The sum of the parts so far; null if there are none.
  mlir::Value of(mlir::Value tensor) const { return sums_.lookup(tensor); }

 private:
  llvm::DenseSet<mlir::Value> depends_;
  llvm::DenseMap<mlir::Value, mlir::Value> sums_;
};

/// The element type of a floating-point tensor; UNSPECIFIED for others.
v1::DataType floatTypeOf(mlir::Value tensor);

/// An emitter at `builder` for gradients of `op`, with a location that names its node.
Emitter gradientEmitter(mlir::OpBuilder builder, mlir::Operation& op);

}  // namespace tessera::compiler::training
