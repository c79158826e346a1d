#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// A sliding window over the spatial dimensions of an N x C x spatial... tensor; each list has one entry
/// per spatial dimension, in elements.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> low, high;  ///< padding before and after
  std::vector<int64_t> output;     ///< result's spatial size
  bool by_extent = false;          ///< whether padding follows from the input's size: SAME, or rounded up

  size_t rank() const { return kernel.size(); }
  bool padded() const;
};

/// Reads strides, dilations, pads and auto_pad of a convolution or pooling over `spatial` (the input's
/// spatial size) and derives the output size. With `ceil_mode`, high padding grows to what the last window reads.
absl::StatusOr<Window> readWindow(Node& n, std::vector<int64_t> spatial, std::vector<int64_t> kernel, bool ceil_mode);

/// A list of `count` integers in [least, 2^31), `fallback` each when absent.
absl::StatusOr<std::vector<int64_t>> spatialAttribute(Node& n, const std::string& name, size_t count, int64_t least,
                                                      int64_t fallback);

/// The extents of the result of a window over x, and in `x` its elements beyond an extent made `neutral` where a window
/// that counts may read them. Refuses what would be padded by the extent (SAME with strides), rounded up, or combined.
absl::StatusOr<std::map<int64_t, mlir::Value>> windowExtents(Node& n, Emitter& e, Tensor& x, const Window& window,
                                                             llvm::function_ref<mlir::Value(const Scalars&)> neutral);

/// Pads the spatial dimensions of x (batch and channel lead) with `value`.
Tensor padSpatial(Emitter& e, const Tensor& x, const Window& window, mlir::Value value);

/// {extent of one window in input elements}, per spatial dimension: (kernel - 1) * dilation + 1.
std::vector<int64_t> windowExtent(const Window& window);

}  // namespace tessera::compiler
