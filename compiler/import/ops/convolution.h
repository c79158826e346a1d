#pragma once

#include "compiler/import/operator.h"
#include "compiler/import/ops/window.h"

namespace tessera::compiler {

struct Filter {
  int64_t groups = 1, outputs = 1, channels = 1;  ///< outputs: of all groups; channels: input channels of one group
  std::vector<int64_t> kernel;
};

/// Returns the sizes of the filter w [F, C / group, kernel...] for x [N, C, spatial...], checked against the node's
/// attributes.
absl::StatusOr<Filter> readFilter(Node& n, const Tensor& x, const Tensor& w);

/// Convolves an already padded input with w [F, C / group, kernel...]. Two-dimensional convolutions are named
/// operations, which later passes recognize.
Tensor convolve(Emitter& e, const Tensor& x, const Tensor& w, const Filter& f, const Window& window);

/// Convolves x [N, C, spatial...] with w [F, C / group, kernel...], both of one type, by the node's attributes. Padding
/// is zero, so zero points of quantized operands must be subtracted before.
absl::StatusOr<Tensor> convolution(Node& n, Emitter& e, const Tensor& x, const Tensor& w);

/// Returns x[n, f, o...] + bias[f] with the bias from an input of the node; x itself if that is absent.
absl::StatusOr<Tensor> addBias(Node& n, Emitter& e, const Tensor& x, int input);

/// Lowers ConvTranspose of ONNX.
Results lowerConvTranspose(Node& n, Emitter& e);

}  // namespace tessera::compiler
