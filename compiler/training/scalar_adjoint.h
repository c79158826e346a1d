#pragma once

#include "absl/status/statusor.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

/// Reverse mode within the body of a structured operation, on single elements.
namespace tessera::compiler::training {

struct BodyAdjoint {
  mlir::Block& body;                   ///< of the original operation
  mlir::Value result;                  ///< value of the body to differentiate
  mlir::Value seed;                    ///< its adjoint, at the builder's insertion point
  llvm::ArrayRef<mlir::Value> wanted;  ///< arguments and results of operations of the body, of float types
  const mlir::IRMapping& forward;      ///< from values of the body to their copies at the insertion point
};

/// Emits the derivative of `result` by each of `wanted`, times `seed`. A null value: the result does not depend on it.
/// Fails with UNSUPPORTED_OPERATOR for an operation without a rule.
absl::StatusOr<llvm::SmallVector<mlir::Value>> emitAdjoints(mlir::OpBuilder& builder, mlir::Location loc,
                                                            const BodyAdjoint& adjoint);

}  // namespace tessera::compiler::training
