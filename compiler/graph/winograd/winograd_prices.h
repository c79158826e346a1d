#pragma once

#include <vector>

#include "compiler/graph/winograd/winograd_algorithm.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// A 3x3 convolution with stride 1: batch, channels and the extents of its result.
struct ConvolutionShape {
  int64_t batch = 1, inputs = 1, outputs = 1, height = 1, width = 1;
};

/// Predicted times of one convolution on one core, in microseconds.
struct WinogradPrice {
  double product = 0;     ///< the batched product, or the weights' way from memory where that takes longer
  double transforms = 0;  ///< both transforms: arithmetic, and writing and reading what lies between the stages
  /// Rows of blocks that go through all stages before the next ones start, so that what lies between the stages stays
  /// in the second cache level; 0: all of them.
  int64_t slice_rows = 0;
  double total() const { return product + transforms; }
};

/// Prices of a convolution done directly and in Winograd's domain, from the target's arithmetic rate and the bandwidth
/// of its memory levels. Weights are read from the last level: a network's other layers have pushed them out.
class WinogradPrices {
 public:
  explicit WinogradPrices(const v1::Target& target);

  double direct(const ConvolutionShape& shape) const;
  WinogradPrice of(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm) const;

 private:
  double bytesPerUs(double bytes) const;
  void considerSlices(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm, WinogradPrice& price) const;

  struct Level {
    double capacity, bytes_per_us;
  };
  double lanes_ = 4;
  double cycles_per_us_ = 1000;
  double operations_per_us_ = 8000;
  std::vector<Level> levels_;
};

}  // namespace tessera::compiler
