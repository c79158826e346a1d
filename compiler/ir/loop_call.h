#pragma once

#include <cstdint>
#include <optional>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// A loop of the model that stays a loop: a func.call of a private function of the module, its body, that runs once for
/// each iteration.
///
///   operands of the call     [trip count], [condition], carried..., scanned..., captured...
///   arguments of the body    iteration, carried..., parts of scanned..., captured...
///   results of the body      [condition], carried..., parts of stacked...
///   results of the call      carried..., stacked..., executed
///
/// Trip count, iteration (0 for the first one) and executed (how many iterations ran) are tensor<i64>, conditions
/// tensor<i8> (0 or 1), all without dimensions. A scanned or stacked tensor has one dimension more than its part, the
/// first one, of `most` elements: iteration i reads or writes part i, or part most - 1 - i where it is reversed. Parts
/// of stacked tensors that no iteration wrote hold anything.
/// The loop runs min(trip count, most) iterations, 0 for a negative count, while the condition holds: the operand
/// before the first iteration, the body's result after each. Booleans are i8 at these borders, as at the model's. The
/// body may contain such calls itself; it reads no value of the function around it but by its arguments. A body
/// argument with the attribute `tessera.weight = <index into ImportedModel.weights>`, behind all others, is a weight;
/// it has no operand.
class LoopCall {
 public:
  /// What does not follow from types.
  struct Form {
    bool has_trip_count = false, has_condition = false;
    int64_t carried = 0;
    int64_t most = -1;  ///< iterations; -1: no bound is known, and nothing is scanned or stacked
    llvm::SmallVector<bool> scanned_reversed = {}, stacked_reversed = {};  ///< one for each tensor
  };

  /// The loop that `op` is; nothing when it is none.
  static std::optional<LoopCall> of(mlir::Operation* op);
  /// Makes the call; operands and results in the order above.
  static mlir::func::CallOp create(mlir::OpBuilder& builder, mlir::Location location, mlir::func::FuncOp body,
                                   const Form& form, mlir::ValueRange operands);

  mlir::func::CallOp call() const { return call_; }
  mlir::func::FuncOp body() const;  ///< null where the module has none of that name
  const Form& form() const { return form_; }

  mlir::Value tripCount() const { return form_.has_trip_count ? call_.getOperand(0) : mlir::Value(); }
  mlir::Value condition() const {
    return form_.has_condition ? call_.getOperand(form_.has_trip_count ? 1 : 0) : mlir::Value();
  }
  mlir::OperandRange carried() const { return operands(0, form_.carried); }
  mlir::OperandRange scanned() const {
    return operands(form_.carried, static_cast<int64_t>(form_.scanned_reversed.size()));
  }
  mlir::OperandRange captured() const;
  unsigned firstCaptured() const;  ///< position among the call's operands

  int64_t numScanned() const { return static_cast<int64_t>(form_.scanned_reversed.size()); }
  int64_t numStacked() const { return static_cast<int64_t>(form_.stacked_reversed.size()); }

 private:
  LoopCall(mlir::func::CallOp call, Form form) : call_(call), form_(std::move(form)) {}
  mlir::OperandRange operands(int64_t first, int64_t count) const;

  mutable mlir::func::CallOp call_;  // its getters are not const
  Form form_;
};

}  // namespace tessera::compiler
