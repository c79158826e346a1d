#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// x[m, k] * y[k, n]; with a flag, the operand is stored transposed and read through its indexing map.
Tensor product(Emitter& e, const Tensor& x, const Tensor& y, bool transpose_x, bool transpose_y);

/// NumPy's matmul of two tensors of one type: vectors are promoted to matrices, leading dimensions broadcast.
absl::StatusOr<Tensor> matmul(Node& n, Emitter& e, Tensor x, Tensor y);

/// The rule for extents of MatMul and Gemm: rows of the first operand, columns of the second and the matrices of both
/// do not meet one another. The dimension that is summed has to be zeroed beyond its extent.
absl::Status productExtents(Node& n, Emitter& e, std::vector<Tensor>& results);

/// Elements beyond the extent of the dimension that both operands share are zeros, in both: one may hold no number.
absl::Status zeroSummed(const Node& n, Emitter& e, Tensor& x, Tensor& y, bool transpose_x, bool transpose_y);

/// The operator Gemm: alpha * A' B' + beta * C.
absl::StatusOr<std::vector<Tensor>> lowerGemm(Node& n, Emitter& e);

}  // namespace tessera::compiler
