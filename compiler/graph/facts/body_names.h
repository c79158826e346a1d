#pragma once

#include <string>
#include <vector>

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// The element operations of a body, as a person would name them, in their order: "add", "relu". Several operations
/// that compute a known function of one value are one: relu, relu6, clip, leaky relu, sigmoid, silu, gelu, elu, selu,
/// celu, softplus, hard swish.
std::vector<std::string> bodyNames(mlir::linalg::LinalgOp op);

/// Names of operations that follow each other, with those of a softmax as one.
std::vector<std::string> withSoftmax(const std::vector<std::string>& names);

}  // namespace tessera::compiler
