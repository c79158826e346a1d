#pragma once

#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler {

/// A loop of the model that stays a loop: `tessera.loop` names a private function of the module, its body, that runs
/// once for each iteration.
///
///   operands               [trip count], [condition], carried..., scanned..., captured...
///   arguments of the body  iteration, carried..., parts of scanned..., captured...
///   results of the body    [condition], carried..., parts of stacked...
///   results                carried..., stacked..., executed
///
/// Trip count, iteration (0 for the first one) and executed (how many iterations ran) are tensor<i64>, conditions
/// tensor<i8> (0 or 1), all without dimensions. A scanned or stacked tensor has one dimension more than its part, the
/// first one, of `most` elements: iteration i reads or writes part i, or part most - 1 - i where it is reversed. Parts
/// of stacked tensors that no iteration wrote hold anything.
/// The loop runs min(trip count, most) iterations, 0 for a negative count, while the condition holds: the operand
/// before the first iteration, the body's result after each. Booleans are i8 at these borders, as at the model's. The
/// body may contain such operations itself; it reads no value of the function around it but by its arguments. A body
/// argument with the attribute `tessera.weight = <index into ImportedModel.weights>`, behind all others, is a weight;
/// it has no operand.
class LoopOp
    : public mlir::Op<LoopOp, mlir::OpTrait::ZeroRegions, mlir::OpTrait::VariadicResults, mlir::OpTrait::ZeroSuccessors,
                      mlir::OpTrait::VariadicOperands, mlir::MemoryEffectOpInterface::Trait> {
 public:
  /// What does not follow from types.
  struct Form {
    bool has_trip_count = false, has_condition = false;
    int64_t carried = 0;
    int64_t most = -1;  ///< iterations; -1: no bound is known, and nothing is scanned or stacked
    llvm::SmallVector<bool> scanned_reversed = {}, stacked_reversed = {};  ///< one for each tensor
  };

  using Op::Op;
  static llvm::StringRef getOperationName() { return "tessera.loop"; }
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames() { return {}; }
  /// Operands and results in the order above. The context has loaded LoopDialect.
  static LoopOp create(mlir::OpBuilder& builder, mlir::Location location, mlir::func::FuncOp body, const Form& form,
                       mlir::ValueRange operands);

  Form form();
  mlir::func::FuncOp body();  ///< null where the module has none of that name
  mlir::Value tripCount() { return form().has_trip_count ? getOperation()->getOperand(0) : mlir::Value(); }
  mlir::Value condition();
  mlir::OperandRange carried();
  mlir::OperandRange scanned();
  mlir::OperandRange captured();
  unsigned firstCaptured();  ///< position among the operands
  mlir::Value executed() { return getOperation()->getResults().back(); }

  llvm::LogicalResult verify();  // NOLINT(bugprone-derived-method-shadowing-base-method): as MLIR calls it
  /// It has no effect but its results.
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
