#pragma once

#include <string>
#include <vector>

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Names the element operations of a body in order, as a person would: "add", "relu". A sequence that computes a known
/// function of one value has one name: relu, relu6, clip, leaky relu, sigmoid, silu, gelu, elu, selu, celu, softplus,
/// hard swish.
std::vector<std::string> bodyNames(mlir::linalg::LinalgOp op);

/// Replaces the names of a softmax's consecutive operations by one.
std::vector<std::string> withSoftmax(const std::vector<std::string>& names);

}  // namespace tessera::compiler
