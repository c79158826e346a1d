#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// Returns x[m, k] * y[k, n]. With a flag, the operand is stored transposed and read through its indexing map.
Tensor product(Emitter& e, const Tensor& x, const Tensor& y, bool transpose_x, bool transpose_y);

/// NumPy's matmul of two tensors of one type: vectors are promoted to matrices; leading dimensions broadcast.
absl::StatusOr<Tensor> matmul(Node& n, Emitter& e, Tensor x, Tensor y);

/// Extents of MatMul and Gemm: rows of the first operand, columns of the second and matrices of both are independent.
/// The summed dimension must be zeroed beyond its extent.
absl::Status productExtents(Node& n, Emitter& e, std::vector<Tensor>& results);

/// Zeros both operands beyond the extent of the summed dimension: zeroing one is not enough, since the other may hold
/// NaN.
absl::Status zeroSummed(const Node& n, Emitter& e, Tensor& x, Tensor& y, bool transpose_x, bool transpose_y);

/// Lowers Gemm: alpha * A' B' + beta * C.
absl::StatusOr<std::vector<Tensor>> lowerGemm(Node& n, Emitter& e);

}  // namespace tessera::compiler
