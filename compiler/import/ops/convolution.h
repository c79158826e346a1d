#pragma once

#include "compiler/import/operator.h"
#include "compiler/import/ops/window.h"

namespace tessera::compiler {

struct Filter {
  int64_t groups = 1, outputs = 1, channels = 1;  ///< outputs: of all groups; channels: input channels of one group
  std::vector<int64_t> kernel;
};

/// The sizes of the filter w [F, C / group, kernel...] for x [N, C, spatial...], checked against the node's attributes.
absl::StatusOr<Filter> readFilter(Node& n, const Tensor& x, const Tensor& w);

/// The convolution of an already padded input with w [F, C / group, kernel...]. Two-dimensional ones are named
/// operations: later passes know them.
Tensor convolve(Emitter& e, const Tensor& x, const Tensor& w, const Filter& f, const Window& window);

/// The convolution of x [N, C, spatial...] with w [F, C / group, kernel...], both of one type, under the node's
/// attributes. Padding is with zeros, so quantized operands come with their zero points subtracted.
absl::StatusOr<Tensor> convolution(Node& n, Emitter& e, const Tensor& x, const Tensor& w);

/// x[n, f, o...] + bias[f], where the bias is an input of the node; x itself when that is absent.
absl::StatusOr<Tensor> addBias(Node& n, Emitter& e, const Tensor& x, int input);

/// ConvTranspose of ONNX.
Results lowerConvTranspose(Node& n, Emitter& e);

}  // namespace tessera::compiler
