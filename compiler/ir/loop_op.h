#pragma once

#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {

/// A loop of the model that stays a loop. `tessera.loop` names a private function of the module, its body, that runs
/// once for each iteration.
///
///   operands               [trip count], [condition], carried..., scanned..., captured...
///   arguments of the body  iteration, carried..., parts of scanned..., captured...
///   results of the body    [condition], carried..., parts of stacked...
///   results                carried..., stacked..., executed
///
/// Trip count, iteration (from 0) and executed (the number of iterations that ran) are tensor<i64>; conditions are
/// tensor<i8> (0 or 1). All of them have rank 0. A scanned or stacked tensor has one leading dimension more than its
/// part, of `most` elements. Iteration i reads or writes part i, or part most - 1 - i if the tensor is reversed. Parts
/// of stacked tensors that no iteration wrote have unspecified contents.
/// The loop runs min(trip count, most) iterations, 0 for a negative count, while the condition holds. The operand
/// decides the first iteration, the body's result each later one. Booleans at the loop's interface are i8, as at the
/// model's. The body may contain loops. It reads values of the surrounding function through its arguments only. A body
/// argument with the attribute `tessera.weight = <index into ImportedModel.weights>` is a weight; it follows all others
/// and has no operand.
class LoopOp
    : public mlir::Op<LoopOp, mlir::OpTrait::ZeroRegions, mlir::OpTrait::VariadicResults, mlir::OpTrait::ZeroSuccessors,
                      mlir::OpTrait::VariadicOperands, mlir::MemoryEffectOpInterface::Trait> {
 public:
  /// Properties that do not follow from types.
  struct Form {
    bool has_trip_count = false, has_condition = false;
    int64_t carried = 0;
    int64_t most = -1;  ///< bound of the iterations; -1: unknown, and nothing is scanned or stacked
    llvm::SmallVector<bool> scanned_reversed = {}, stacked_reversed = {};  ///< one for each tensor
  };

  using Op::Op;
  static llvm::StringRef getOperationName() { return "tessera.loop"; }
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames() { return {}; }
  /// Creates the operation, with operands and results in the order above. The context must have loaded LoopDialect.
  static LoopOp create(mlir::OpBuilder& builder, mlir::Location location, mlir::func::FuncOp body, const Form& form,
                       mlir::ValueRange operands);

  Form form();
  mlir::func::FuncOp body();  ///< null if the module has no function of that name
  mlir::Value tripCount() { return form().has_trip_count ? getOperation()->getOperand(0) : mlir::Value(); }
  mlir::Value condition();
  mlir::OperandRange carried();
  mlir::OperandRange scanned();
  mlir::OperandRange captured();
  unsigned firstCaptured();  ///< position among the operands
  mlir::Value executed() { return getOperation()->getResults().back(); }

  llvm::LogicalResult verify();  // NOLINT(bugprone-derived-method-shadowing-base-method): as MLIR calls it
  /// Has no side effects.
  void getEffects(llvm::SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>&) {}
};

class LoopDialect : public mlir::Dialect {
 public:
  explicit LoopDialect(mlir::MLIRContext* context);
  static llvm::StringRef getDialectNamespace() { return "tessera"; }
};

}  // namespace tessera::compiler

MLIR_DECLARE_EXPLICIT_TYPE_ID(tessera::compiler::LoopOp)
MLIR_DECLARE_EXPLICIT_TYPE_ID(tessera::compiler::LoopDialect)
