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
/// Parallel loops are outside, reductions inside in program order; the longest parallel loop runs through the body in
/// lanes. Takes the evaluated operations from `budget`. Errors: RESOURCE_EXHAUSTED, before anything is computed, if the
/// budget does not suffice; OUT_OF_RANGE if an access leaves its array; UNIMPLEMENTED if an operation has no rule.
absl::Status runStructured(mlir::linalg::LinalgOp op, std::vector<Operand>& inputs, std::vector<Array>& outputs,
                           const Surroundings& surroundings, int64_t& budget);

/// Value of an affine expression at a point.
int64_t evaluate(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> symbols = {});

}  // namespace tessera::compiler::interpreter
