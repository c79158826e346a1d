#pragma once

#include <optional>

#include "compiler/graph/constants/constant_evaluator.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// What is subtracted from each element of a quantized tensor: a constant, and an 8-bit tensor where it is not one.
struct ZeroPoint {
  int64_t constant = 0;
  mlir::Value tensor;      ///< or null
  bool is_signed = false;  ///< the tensor's elements
  mlir::AffineMap map;     ///< from the operand's dimensions to the tensor's
  bool isZero() const { return !tensor && constant == 0; }
};

/// By what the difference is multiplied, in single precision: a constant, or a tensor.
struct Scale {
  float constant = 1;
  mlir::Value tensor;   ///< or null
  mlir::AffineMap map;  ///< from the operand's dimensions to the tensor's
};

/// A tensor of elements of 8 bits less their zero points: integers of 32 bits, or, scaled, in single precision.
struct ShiftedOperand {
  mlir::Value elements;  ///< 8 bits, in the operand's shape
  bool is_signed = false;
  ZeroPoint zero;
  std::optional<Scale> scale = std::nullopt;
};

/// Follows `value` back to 8-bit elements, through transposes, views, slices and paddings with zero, which are made
/// again on the elements before `builder`. Nothing where it is something else.
std::optional<ShiftedOperand> shiftedOperand(mlir::OpBuilder& builder, mlir::Value value, ConstantEvaluator& constants);

}  // namespace tessera::compiler
