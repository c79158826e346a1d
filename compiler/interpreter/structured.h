#pragma once

#include "compiler/interpreter/body.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler::interpreter {

/// An operand of a structured operation: an array, or the same scalar at every point.
struct Operand {
  Array array;
  Scalar scalar;
  bool is_scalar = false;
};

/// Walks the iteration space of a linalg operation. `outputs` hold the initial values and are written in place.
/// Parallel loops go outside, reductions inside in the order that is written, and the longest parallel loop runs
/// through the body in lanes. Takes the operations evaluated out of `budget` and fails with RESOURCE_EXHAUSTED, before
/// anything is computed, where it does not suffice; with OUT_OF_RANGE where an access leaves its array; with
/// UNIMPLEMENTED where an operation has no rule.
absl::Status runStructured(mlir::linalg::LinalgOp op, std::vector<Operand>& inputs, std::vector<Array>& outputs,
                           const Surroundings& surroundings, int64_t& budget);

/// Value of an affine expression at a point.
int64_t evaluate(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> symbols = {});

}  // namespace tessera::compiler::interpreter
