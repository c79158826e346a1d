#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Workloads that codegen_benchmark measures, and the library calls that compute the same.
namespace tessera::compiler::codegen::benchmark {

using Work = std::function<void()>;

struct Conv {
  int64_t c = 0, size = 0, k = 0, kernel = 1, stride = 1, groups = 1;
};

/// C[b] = A[b] B[b]. `ta`: A is stored as [k][m]; `tb`: B is stored as [n][k].
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool ta = false, tb = false;
};

/// Peer implementations; each owns its operands. oneDNN chooses the layout of a convolution itself, and that of B when
/// `packed`.
Work dnnlConvolution(const Conv& conv);
Work dnnlMatmul(const Gemm& gemm, bool packed);
Work blasMatmul(const Gemm& gemm);

struct Case {
  std::string name;
  double flops;
  std::string ir;
  std::vector<size_t> operands;              ///< floats
  std::vector<std::function<Work()>> peers;  ///< oneDNN first
};

Case gemmCase(const Gemm& gemm);

/// `block`: channels of a block, columns of a panel.
std::vector<Case> allCases(int64_t block);

/// `count` products of random shape, extents from 1 to 4096 with primes among them, at most 2^33 multiply-adds.
std::vector<Case> gemmSweep(int count, unsigned seed);

}  // namespace tessera::compiler::codegen::benchmark
