#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// A sliding window over the spatial dimensions of an N x C x spatial... tensor; each list has one entry
/// per spatial dimension, in elements.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> low, high;           ///< padding before and after
  std::vector<int64_t> output;              ///< result's spatial size
  std::vector<int64_t> declared_high = {};  ///< `high` without what rounding up added
  enum class Rule { kGiven, kSameUpper, kSameLower, kCeil } rule = Rule::kGiven;  ///< how size and padding follow

  size_t rank() const { return kernel.size(); }
  bool padded() const;
};

/// Reads strides, dilations, pads and auto_pad of a convolution or pooling over `spatial` (the input's
/// spatial size) and derives the output size. With `ceil_mode`, high padding grows to what the last window reads.
absl::StatusOr<Window> readWindow(Node& n, std::vector<int64_t> spatial, std::vector<int64_t> kernel, bool ceil_mode);

/// The attribute auto_pad; an empty one is none, as ONNX Runtime reads it.
absl::StatusOr<std::string> readAutoPad(Node& n);

/// A list of `count` integers in [least, 2^31), `fallback` each when absent.
absl::StatusOr<std::vector<int64_t>> spatialAttribute(Node& n, const std::string& name, size_t count, int64_t least,
                                                      int64_t fallback);

/// The extents of the result of a window over x, and in `x` its elements beyond an extent made `neutral` where a window
/// that counts may read them. Where padding follows the extent (SAME with strides) x is padded, and `window` no longer
/// is, along that dimension. Refuses what is combined.
absl::StatusOr<std::map<int64_t, mlir::Value>> windowExtents(Node& n, Emitter& e, Tensor& x, Window& window,
                                                             llvm::function_ref<mlir::Value(const Scalars&)> neutral);

/// Pads the spatial dimensions of x (batch and channel lead) with `value`.
Tensor padSpatial(Emitter& e, const Tensor& x, const Window& window, mlir::Value value);

/// {extent of one window in input elements}, per spatial dimension: (kernel - 1) * dilation + 1.
std::vector<int64_t> windowExtent(const Window& window);

}  // namespace tessera::compiler
