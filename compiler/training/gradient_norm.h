#pragma once

#include <vector>

#include "compiler/import/emitter.h"

namespace tessera::compiler::training {

/// Scales all gradients by one factor if their global norm is larger than `limit`, as torch.nn.utils.clip_grad_norm_.
std::vector<Tensor> limitNorm(Emitter& e, const std::vector<Tensor>& gradients, double limit);

/// The sum of the squares of all elements, a scalar of the tensor's type.
Tensor sumOfSquares(Emitter& e, const Tensor& x);

}  // namespace tessera::compiler::training
