#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace tessera::compiler {

/// F(m x m, 3 x 3) of Winograd's minimal filtering: blocks of m x m results from blocks of (m + 2) x (m + 2) inputs
/// with (m + 2)^2 multiplications a channel instead of 9 m^2 (Lavin and Gray, "Fast Algorithms for Convolutional
/// Neural Networks", CVPR 2016).
///
///   Y = A^T [ (G g G^T) . (B^T d B) ] A
///
/// Matrices from the construction of Toom and Cook at points: 0, 1, -1 for m = 2; 0, 5/8, -5/8, 3/2, -3/2 for m = 4,
/// which err a third of what the customary 0, 1, -1, 2, -2 do (largest error of a 3x3 convolution of 128 channels
/// 1.9e-6 instead of 6.2e-6 of the largest result, direct sums 2e-7). Entries of A and B are exact in binary.
struct WinogradAlgorithm {
  const char* name = "";      ///< as Schedule.algorithm has it
  int64_t results = 0;        ///< m
  std::vector<float> input;   ///< B^T, (m + 2) x (m + 2), row by row
  std::vector<float> filter;  ///< G, (m + 2) x 3
  std::vector<float> output;  ///< A^T, m x (m + 2)
  /// What transforming a block costs with all of it in registers and the first cache level, in cycles a vector:
  /// loads, stores and half the additions.
  double input_cycles = 0;
  double output_cycles = 0;

  int64_t side() const { return results + 2; }
  int64_t positions() const { return side() * side(); }
};

/// Smallest first.
llvm::ArrayRef<WinogradAlgorithm> winogradAlgorithms();

}  // namespace tessera::compiler
