#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// The convolution of x [N, C, spatial...] with w [F, C / group, kernel...], both of one type, under the node's
/// attributes. Padding is with zeros, so quantized operands come with their zero points subtracted.
absl::StatusOr<Tensor> convolution(Node& n, Emitter& e, const Tensor& x, const Tensor& w);

/// x[n, f, o...] + bias[f], where the bias is an input of the node; x itself when that is absent.
absl::StatusOr<Tensor> addBias(Node& n, Emitter& e, const Tensor& x, int input);

}  // namespace tessera::compiler
