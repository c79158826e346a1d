#pragma once

#include <vector>

#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/winograd/winograd_algorithm.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// A 3x3 convolution with stride 1: batch, channels and the extents of its result. A dilated one is dilation^2 plain
/// ones, of every dilation-th row and column from each of the first on.
struct ConvolutionShape {
  int64_t batch = 1, inputs = 1, outputs = 1, height = 1, width = 1;
  int64_t dilation = 1;  ///< of rows and of columns

  /// Blocks of `results` x `results` that an image takes, down and across each of its plain convolutions.
  int64_t blocksDown(int64_t results) const { return ceilDiv(ceilDiv(height, dilation), results); }
  int64_t blocksAcross(int64_t results) const { return ceilDiv(ceilDiv(width, dilation), results); }
  int64_t blocks(int64_t results) const { return dilation * dilation * blocksDown(results) * blocksAcross(results); }
};

/// Predicted times of one convolution on one core, in microseconds; slices that not all cores have equally many of
/// count as if all had what the busiest one has.
struct WinogradPrice {
  double product = 0;     ///< the batched product, or the weights' way from memory where that takes longer
  double transforms = 0;  ///< both transforms: arithmetic, and writing and reading what lies between the stages
  /// Rows of blocks that go through all stages before the next ones start, so that what lies between the stages stays
  /// in the second cache level; 0: all of them.
  int64_t slice_rows = 0;
  double total() const { return product + transforms; }
};

/// Prices of a convolution done directly and in Winograd's domain, from the chip's arithmetic rate and the bandwidth of
/// its memory levels. Weights are read from the last level: a network's other layers have pushed them out, unless all
/// of them (`weights_bytes`, which grow in Winograd's domain) fit in the core's own.
class WinogradPrices {
 public:
  WinogradPrices(const Chip& chip, double weights_bytes) : chip_(chip), all_weights_(weights_bytes) {}

  double direct(const ConvolutionShape& shape) const;
  WinogradPrice of(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm) const;

 private:
  double bytesPerUs(double bytes) const;
  /// The channels that as many take as vectors hold, the last one not full.
  double wholeVectors(int64_t channels) const;
  /// Work of the core with the most rows of blocks over the average, with slices of so many dealt to all.
  double idleFactor(int64_t images, int64_t rows, int64_t slice) const;
  void considerSlices(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm, WinogradPrice& price) const;

  double cyclesPerUs() const { return chip_.hertz() * 1e-6; }
  double phaseUs() const { return chip_.prices().steps().phase_cycles() / cyclesPerUs(); }
  /// What operations take that run at the rate of long products.
  double arithmeticUs(double operations) const;
  /// What weights take that are read once, panel by panel. `growth`: of all layers' weights.
  double weightsUs(double bytes, double growth) const;

  const Chip& chip_;
  double all_weights_;
};

}  // namespace tessera::compiler
