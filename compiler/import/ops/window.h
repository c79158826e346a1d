#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// A sliding window over the spatial dimensions of an N x C x spatial... tensor. Each list has one entry per spatial
/// dimension, in elements.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> low, high;           ///< padding before and after
  std::vector<int64_t> output;              ///< result's spatial size
  std::vector<int64_t> declared_high = {};  ///< `high` without the padding added by rounding up
  /// How the output size and the padding are derived.
  enum class Rule { kGiven, kSameUpper, kSameLower, kCeil } rule = Rule::kGiven;

  size_t rank() const { return kernel.size(); }
  bool padded() const;
};

/// Reads strides, dilations, pads and auto_pad of a convolution or pooling over `spatial` (the input's spatial size)
/// and computes the output size. With `ceil_mode`, high padding extends to the end of the last window.
absl::StatusOr<Window> readWindow(Node& n, std::vector<int64_t> spatial, std::vector<int64_t> kernel, bool ceil_mode);

/// Returns the attribute auto_pad; an empty one counts as absent, as in ONNX Runtime.
absl::StatusOr<std::string> readAutoPad(Node& n);

/// Returns a list of `count` integers in [least, 2^31); `fallback` for each if absent.
absl::StatusOr<std::vector<int64_t>> spatialAttribute(Node& n, const std::string& name, size_t count, int64_t least,
                                                      int64_t fallback);

/// For an input x with bounded dimensions (clients/docs/design/terms.md): returns the extents of the result of a window
/// over x. Replaces elements of x beyond an extent by `neutral` where a window of a used result may read them. If the
/// padding depends on the extent (SAME with strides), pads x along that dimension and removes that padding from
/// `window`. Refuses a bounded dimension that the window combines.
absl::StatusOr<std::map<int64_t, mlir::Value>> resultExtentsOfWindow(
    Node& n, Emitter& e, Tensor& x, Window& window, llvm::function_ref<mlir::Value(const Scalars&)> neutral);

/// Pads the spatial dimensions of x (batch and channel lead) with `value`.
Tensor padSpatial(Emitter& e, const Tensor& x, const Window& window, mlir::Value value);

/// Returns the number of input elements that one window spans, per spatial dimension: (kernel - 1) * dilation + 1.
std::vector<int64_t> dilatedKernelSize(const Window& window);

}  // namespace tessera::compiler
