#pragma once

#include <optional>
#include <utility>

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Taps [first, last] of those that a window has along a dimension.
struct Taps {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first + 1; }
  bool operator==(const Taps&) const = default;
};

/// One dimension of an operand as a window walks it: index = stride * place + apart * tap.
struct Walk {
  unsigned operand = 0, dimension = 0;
  unsigned place = 0, tap = 0;  ///< loops
  int64_t stride = 1, apart = 1;

  /// Elements from the first to the last that `taps` meet; `extents`: of the operation's loops.
  int64_t read(llvm::ArrayRef<int64_t> extents, Taps taps) const {
    return (stride * (extents[place] - 1)) + (apart * (taps.count() - 1)) + 1;
  }
};

/// How the operation walks a dimension of an input, if it is a window there.
std::optional<Walk> walkOf(mlir::linalg::GenericOp op, unsigned operand, unsigned dimension);

/// The inputs, and the dimensions of them, that a tap's loop walks beside the windowed one (the weights); nothing where
/// one is not walked by the loop alone.
std::optional<llvm::SmallVector<std::pair<unsigned, unsigned>>> alongTap(mlir::linalg::GenericOp op, const Walk& walk);

/// Elements [first, first + count) along one dimension; `value` itself where those are all.
mlir::Value sliced(mlir::OpBuilder& b, mlir::Value value, unsigned dimension, int64_t first, int64_t count);

}  // namespace tessera::compiler
