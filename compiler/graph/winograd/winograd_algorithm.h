#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

namespace tessera::compiler {

/// F(m x m, 3 x 3) of Winograd's minimal filtering: blocks of m x m results from blocks of (m + 2) x (m + 2) inputs
/// with (m + 2)^2 multiplications per channel instead of 9 m^2 (Lavin and Gray, "Fast Algorithms for Convolutional
/// Neural Networks", CVPR 2016).
///
///   Y = A^T [ (G g G^T) . (B^T d B) ] A
///
/// Matrices by the construction of Toom and Cook at the points 0, 1, -1 for m = 2 and 0, 5/8, -5/8, 3/2, -3/2 for m =
/// 4, whose error is a third of that of the customary 0, 1, -1, 2, -2: for a 3x3 convolution of 128 channels 1.9e-6
/// instead of 6.2e-6 of the largest result, where direct sums have 2e-7. Entries of A and B are exact in binary.
struct WinogradAlgorithm {
  const char* name = "";      ///< as in Schedule.algorithm
  int64_t results = 0;        ///< m
  std::vector<float> input;   ///< B^T, (m + 2) x (m + 2), row by row
  std::vector<float> filter;  ///< G, (m + 2) x 3
  std::vector<float> output;  ///< A^T, m x (m + 2)
  /// Cost of transforming a block in registers and the first cache level, in cycles per vector: loads, stores and half
  /// the additions.
  double input_cycles = 0;
  double output_cycles = 0;

  int64_t side() const { return results + 2; }
  int64_t positions() const { return side() * side(); }
};

/// Returns the algorithms, smallest first.
llvm::ArrayRef<WinogradAlgorithm> winogradAlgorithms();

}  // namespace tessera::compiler
