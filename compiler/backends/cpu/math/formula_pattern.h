#pragma once

#include "compiler/backends/cpu/math/real_expression.h"

namespace tessera::compiler::codegen {

/// Computes a math operation whose first operand is x. Returns a Real without a value for operations that have no
/// formula.
using Formula = Real (*)(mlir::Operation* op, Real x);

/// Rewrites math operations on one element type, scalars or vectors, to their formulas.
struct FormulaPattern : mlir::RewritePattern {
  FormulaPattern(mlir::MLIRContext* context, mlir::Type element, Formula formula)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/3, context), element_(element), formula_(formula) {}

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, mlir::PatternRewriter& rewriter) const override {
    if (op->getName().getDialectNamespace() != "math" || op->getNumResults() != 1 || op->getNumOperands() == 0 ||
        mlir::getElementTypeOrSelf(op->getResult(0).getType()) != element_)
      return mlir::failure();
    const Reals in{rewriter, op->getLoc(), op->getResult(0).getType()};
    const Real result = formula_(op, Real{&in, op->getOperand(0)});
    if (!result.value) return mlir::failure();
    rewriter.replaceOp(op, result.value);
    return mlir::success();
  }

 private:
  mlir::Type element_;
  Formula formula_;
};

}  // namespace tessera::compiler::codegen
