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

/// The access function of a window along one dimension of an operand: index = stride * window + dilation * tap. The
/// loop `window_loop` goes over the positions of the window in the result, the loop `tap_loop` over the positions
/// within the window. `stride` is the distance of neighbouring windows, `dilation` the distance of neighbouring taps.
struct WindowAccess {
  unsigned operand = 0, dimension = 0;
  unsigned window_loop = 0, tap_loop = 0;  ///< positions of the two loops in the operation
  int64_t stride = 1, dilation = 1;

  /// Returns the distance, inclusive, from the first to the last element that `taps` read. `extents` are those of the
  /// operation's loops.
  int64_t span(llvm::ArrayRef<int64_t> extents, Taps taps) const {
    return (stride * (extents[window_loop] - 1)) + (dilation * (taps.count() - 1)) + 1;
  }
};

/// Returns the window access of an input's dimension; nothing if the dimension is not windowed.
std::optional<WindowAccess> windowAccessOf(mlir::linalg::GenericOp op, unsigned operand, unsigned dimension);

/// Returns the inputs and their dimensions that a tap's loop indexes in addition to the windowed one (the weights).
/// Nothing if another expression than the plain loop indexes one of them.
std::optional<llvm::SmallVector<std::pair<unsigned, unsigned>>> operandsIndexedByTap(mlir::linalg::GenericOp op,
                                                                                     const WindowAccess& access);

/// Returns elements [first, first + count) along one dimension; `value` itself if these are all.
mlir::Value sliced(mlir::OpBuilder& b, mlir::Value value, unsigned dimension, int64_t first, int64_t count);

}  // namespace tessera::compiler
