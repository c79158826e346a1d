#pragma once

#include <optional>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// The operation whose only result a function returns; null if there is no such operation.
mlir::linalg::GenericOp returnedGeneric(mlir::func::FuncOp function);

/// The one-element argument of the function that a scalar is read from; null: it is something else.
mlir::BlockArgument readFrom(mlir::Value scalar);

/// Whether the value is the position along a loop, as i64.
bool isPosition(mlir::Value value, int64_t loop);

/// A concatenation of an argument with others along one dimension, where the argument's length is known at run time:
///   out[.., i, ..] = i < length ? past[.., i, ..] : other(.., i, ..)
struct RunTimeConcat {
  mlir::linalg::GenericOp op;
  int64_t dim = 0;
  mlir::BlockArgument past, length;
};

/// Matches the only operation that computes the result of `function`. `past` must be read nowhere else.
std::optional<RunTimeConcat> matchConcat(mlir::func::FuncOp function, mlir::BlockArgument past, int64_t dim);

/// The argument from which a function of appended rows reads row i at the row that it writes, clamped to the rows that
/// the argument has; null: there is none. The two have the same shape.
mlir::BlockArgument sourceOfRows(mlir::func::FuncOp function, int64_t dim);

/// Rewrites the function of a match, so that its result has only rows [length, length + rows) of the concatenation. Its
/// arguments stay, also those that are no longer read.
void keepAppendedRows(mlir::func::FuncOp function, const RunTimeConcat& concat, int64_t rows);

}  // namespace tessera::compiler
