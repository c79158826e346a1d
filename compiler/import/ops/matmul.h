#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// x[m, k] * y[k, n]; with a flag, the operand is stored transposed and read through its indexing map.
Tensor product(Emitter& e, const Tensor& x, const Tensor& y, bool transpose_x, bool transpose_y);

/// NumPy's matmul of two tensors of one type: vectors are promoted to matrices, leading dimensions broadcast.
absl::StatusOr<Tensor> matmul(Node& n, Emitter& e, Tensor x, Tensor y);

/// The operator Gemm: alpha * A' B' + beta * C.
absl::StatusOr<std::vector<Tensor>> lowerGemm(Node& n, Emitter& e);

}  // namespace tessera::compiler
