#pragma once

#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "tessera/v1/plan.pb.h"

/// Chains of operations as workloads, and the tilings they are built with.
namespace tessera::compiler::codegen::testing {

inline constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";

/// C[b, m, n] = A[b, m, k] B[b, k, n]; `transposed`: B is stored as [b, n, k].
Tensor batchProduct(WorkloadText& text, const Tensor& a, const Tensor& b, bool transposed = false);

/// Softmax over the last dimension of a three-dimensional tensor, in the operations that an importer creates.
Tensor softmax(WorkloadText& text, const Tensor& x);

/// max(x, 0), any rank.
Tensor relu(WorkloadText& text, const Tensor& x);

/// Convolution of [n, h, w, c] with [kh, kw, c, f]; x padded by `pad` on each side before.
Tensor convolution(WorkloadText& text, const Tensor& x, const Tensor& filter, int64_t pad, int64_t stride = 1,
                   int64_t dilation = 1);

/// A[batch, m, k] B[batch, k, n] C[batch, n, l]; `transposed`: B is stored as [batch, n, k].
struct Chain {
  int64_t batch, m, n, k, l;
  std::string element = "f32";
  bool transposed = false;
};

/// softmax(mask(A B)) C, where `mask` computes %r from the score %i0, the positions %row and %column, and %low, the
/// value of removed scores.
std::string attentionMaskedBy(const std::string& mask, const Chain& chain);

/// Each row sees the columns up to `offset` after its own.
std::string causal(int64_t offset, const std::string& element = "f32");

/// Appends a loop name and its block extent.
void cut(v1::ChainTiling& slices, const std::string& name, int64_t tile);

/// Loop names and block extents, outermost first.
using Tiling = std::vector<std::pair<std::string, int64_t>>;

/// The same as a schedule request.
ScheduleRequest slicesOf(const Tiling& tiling);

/// Options that check the workload cut as `tiling` says.
CheckOptions chained(const Tiling& tiling, unsigned seed = 1);

}  // namespace tessera::compiler::codegen::testing
