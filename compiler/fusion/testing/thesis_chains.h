#pragma once

#include "compiler/fusion/chain.h"

/// The chains of the thesis by their sizes, for tests and benchmarks. Chains of models are built from access functions
/// (compiler/graph/slices).
namespace tessera::compiler::fusion {

/// C[b,m,l] = A[b,m,k] B[b,k,l];  E[b,m,n] = C[b,m,l] D[b,l,n]  (thesis, figure 3.1; loops b m l k n).
/// The loop b is left out when batch is 1.
Chain gemmChain(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t l, int64_t min_tile = 1);

/// Two convolutions without padding as in table 3.6; loops o (outer channels), h, w of the second one, c (channels
/// between them), i (input channels) and the windows r, s, p, q, which are never cut.
struct ConvolutionChainShape {
  int64_t input_channels = 1, height = 1, width = 1;  ///< of the first input, padding included
  int64_t middle_channels = 1, output_channels = 1;
  int64_t stride1 = 1, stride2 = 1;
  int64_t window1 = 1, window2 = 1;
};
Chain convolutionChain(const ConvolutionChainShape& shape);

}  // namespace tessera::compiler::fusion
