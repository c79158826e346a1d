#pragma once

#include <optional>

#include "compiler/graph/constants/constant_evaluator.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// The zero point of a quantized tensor: a constant, or an 8-bit tensor.
struct ZeroPoint {
  int64_t constant = 0;
  mlir::Value tensor;      ///< or null
  bool is_signed = false;  ///< the tensor's elements
  mlir::AffineMap map;     ///< from the operand's dimensions to the tensor's
  bool isZero() const { return !tensor && constant == 0; }
};

/// The factor of a dequantization, in single precision: a constant, or a tensor.
struct Scale {
  float constant = 1;
  mlir::Value tensor;   ///< or null
  mlir::AffineMap map;  ///< from the operand's dimensions to the tensor's
};

/// An 8-bit tensor minus its zero points, in 32-bit integers, or scaled, in single precision.
struct ShiftedOperand {
  mlir::Value elements;  ///< 8 bits, in the operand's shape
  bool is_signed = false;
  ZeroPoint zero;
  std::optional<Scale> scale = std::nullopt;
};

/// Traces `value` back to 8-bit elements, through transposes, views, slices and zero paddings, which are rebuilt on the
/// elements with `builder`. Returns nothing if `value` has another form.
std::optional<ShiftedOperand> shiftedOperand(mlir::OpBuilder& builder, mlir::Value value, ConstantEvaluator& constants);

}  // namespace tessera::compiler
