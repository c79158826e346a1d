#pragma once

#include <functional>

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler::codegen {

/// The environment in which a body is evaluated.
struct BodyContext {
  mlir::OpBuilder& builder;
  int lanes = 1;  ///< 1: plain scalars
  bool fuse_multiply_add = false;
  std::function<mlir::Value(int)> index;          ///< linalg.index d at this point: index, or vector of index
  std::function<mlir::Value(mlir::Value)> outer;  ///< a value defined outside the body, as a scalar

  mlir::Type typeOf(mlir::Type element) const;
  mlir::Value broadcast(mlir::Value scalar) const;  ///< to `lanes` lanes
  mlir::Value constant(mlir::TypedAttr value) const;
};

/// Evaluates `body` for the given block arguments (all of `lanes` lanes) and returns the values it yields. a * b + c
/// becomes one fused multiply-add if the target has that instruction.
llvm::SmallVector<mlir::Value> emitBody(const BodyContext& context, mlir::Block& body,
                                        llvm::ArrayRef<mlir::Value> arguments);

}  // namespace tessera::compiler::codegen
