#pragma once

#include <vector>

#include "compiler/fusion/ceil_div.h"
#include "compiler/graph/winograd/winograd_algorithm.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// A 3x3 convolution with stride 1: batch, channels and the extents of its result. A dilated one is dilation^2 plain
/// ones of every dilation-th row and column.
struct ConvolutionShape {
  int64_t batch = 1, inputs = 1, outputs = 1, height = 1, width = 1;
  int64_t dilation = 1;  ///< of rows and of columns

  /// Returns the number of blocks of `results` x `results` in an image, down and across each of its plain convolutions.
  int64_t blocksDown(int64_t results) const { return ceilDiv(ceilDiv(height, dilation), results); }
  int64_t blocksAcross(int64_t results) const { return ceilDiv(ceilDiv(width, dilation), results); }
  int64_t blocks(int64_t results) const { return dilation * dilation * blocksDown(results) * blocksAcross(results); }
};

/// Predicted time of one convolution on one core, in microseconds. If slices do not divide evenly among the cores, each
/// core counts with the busiest one's share.
struct WinogradCost {
  double product = 0;  ///< the batched product, or loading the weights if that takes longer
  double transforms =
      0;  ///< input and output transform: arithmetic, and traffic of the values between the three stages
  /// Rows of blocks that go through all stages before the next ones start, so that values between the stages stay in
  /// the second cache level; 0: all rows.
  int64_t slice_rows = 0;
  double total() const { return product + transforms; }
};

/// Predicts the time of a convolution, direct and in Winograd's domain, from the chip's arithmetic rate and the
/// bandwidth of its memory levels. Weights come from the last level, since a network's other layers have evicted them,
/// unless all of them (`weights_bytes`, which grow in Winograd's domain) fit into the core's own caches.
class WinogradCostModel {
 public:
  WinogradCostModel(const Chip& chip, double weights_bytes) : chip_(chip), all_weights_(weights_bytes) {}

  double direct(const ConvolutionShape& shape) const;
  WinogradCost of(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm) const;

 private:
  double bytesPerUs(double bytes) const;
  /// Returns `channels` rounded up to whole vectors.
  double roundUpToVectors(int64_t channels) const;
  /// Returns the work of the busiest core over the average, with slices of `slice` rows distributed over all cores.
  double idleCoreFactor(int64_t images, int64_t rows, int64_t slice) const;
  void considerSlices(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm, WinogradCost& price) const;

  double cyclesPerUs() const { return chip_.hertz() * 1e-6; }
  double phaseUs() const { return chip_.costParameters().overheads().phase_cycles() / cyclesPerUs(); }
  /// Returns the time of `operations` at the rate of long products.
  double arithmeticUs(double operations) const;
  /// Returns the time to read weights once, panel by panel. `growth`: the growth of all layers' weights.
  double weightsUs(double bytes, double growth) const;

  const Chip& chip_;
  double all_weights_;
};

}  // namespace tessera::compiler
