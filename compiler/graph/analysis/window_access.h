#pragma once

#include <optional>
#include <utility>

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// A range [first, last] of a window's taps along a dimension.
struct Taps {
  int64_t first = 0, last = 0;
  int64_t count() const { return last - first + 1; }
  bool operator==(const Taps&) const = default;
};

/// The access function of a window along one dimension of an operand: index = stride * place + apart * tap. The loop
/// `place` is the position of the window in the result, the loop `tap` the position within the window, `stride` the
/// distance of neighbouring windows, `apart` the distance of neighbouring taps (the dilation).
struct Walk {
  unsigned operand = 0, dimension = 0;
  unsigned place = 0, tap = 0;  ///< positions of the two loops in the operation
  int64_t stride = 1, apart = 1;

  /// Returns the distance, inclusive, from the first to the last element that `taps` read. `extents` are those of the
  /// operation's loops.
  int64_t read(llvm::ArrayRef<int64_t> extents, Taps taps) const {
    return (stride * (extents[place] - 1)) + (apart * (taps.count() - 1)) + 1;
  }
};

/// Returns the window access of an input's dimension; nothing if the dimension is not windowed.
std::optional<Walk> windowAccessOf(mlir::linalg::GenericOp op, unsigned operand, unsigned dimension);

/// Returns the inputs and their dimensions that a tap's loop indexes in addition to the windowed one (the weights).
/// Nothing if another expression than the plain loop indexes one of them.
std::optional<llvm::SmallVector<std::pair<unsigned, unsigned>>> operandsIndexedByTap(mlir::linalg::GenericOp op,
                                                                                     const Walk& walk);

/// Returns elements [first, first + count) along one dimension; `value` itself if these are all.
mlir::Value sliced(mlir::OpBuilder& b, mlir::Value value, unsigned dimension, int64_t first, int64_t count);

}  // namespace tessera::compiler
