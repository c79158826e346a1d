#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/graph/layout/channel_layout.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// The cost of layouts on a target, in microseconds of one core. The model ranks layouts; it does not predict times.
///
/// Compute: operations over the unit's rate, scaled by the fraction of a vector (or matrix) instruction that the
/// innermost channels fill, and by v1::CostParameters.Layouts. Memory: bytes over the bandwidth of the innermost level
/// that holds them, and at most the bytes per cycle of a transpose.
class LayoutCost {
 public:
  explicit LayoutCost(const Chip& chip) : chip_(chip), parameters_(chip.costParameters().layouts()) {}

  /// f32 lanes of a vector register.
  int64_t lanes() const { return chip_.lanes(); }
  /// Channels of one matrix instruction, 0 without one: C0 of NC1HWC0.
  int64_t cube() const { return chip_.matrixChannels(); }
  /// Returns the number of neighbouring input channels of `bits` bits that a dot-product instruction sums in one lane
  /// (16: bf16); 1 without such an instruction.
  int64_t dotProductGroup(int bits) const { return std::max(1, compiler::dotProductGroup(chip_.dotProducts(), bits)); }

  /// The input channels of `bits` bits that a tile instruction adds at once, and its operations relative to the
  /// operations of multiply-adds in the same time. None without such an instruction.
  struct Tiles {
    int64_t depth = 0;
    double speed = 0;
  };
  std::optional<Tiles> tilesOf(int bits) const;

  struct Product {
    double operations = 0;  ///< a multiply-add counts as two; without padding channels
    int64_t outputs = 1;    ///< output channels of one convolution group
    int64_t inputs = 1;     ///< input channels of one convolution group
    int64_t line = 1;       ///< output positions whose inputs are contiguous in NCHW: a row, or the plane
    int64_t steps = 1;      ///< length of the sum of one output: input channels times window taps
    int64_t stride = 1;     ///< between the inputs of neighbouring positions of a line
    int64_t group = 1;      ///< see dotProductGroup(); unrelated to convolution groups
    std::optional<Tiles> tiles;
  };
  /// Returns the cost of a convolution that writes `layout` and reads its best input layout.
  double writing(const Product& product, ChannelLayout layout) const;
  /// Returns the extra cost of reading `layout`, whatever the convolution writes.
  double reading(const Product& product, ChannelLayout layout) const;
  /// Returns the extra cost of the combination of reading `from` and writing `to`: vectors run along the channels or
  /// along a line, and the side that is not contiguous along them pays.
  double crossing(const Product& product, ChannelLayout from, ChannelLayout to) const;

  /// Returns the cost of a pool or depthwise convolution in `layout`; `operations` counts scalar operations.
  double window(double operations, int64_t channels, int64_t line, ChannelLayout layout) const;

  /// Returns the fraction of whole vectors that `contiguous` elements fill.
  double vectorShare(int64_t contiguous) const;

  /// Returns the cost of reading and writing `bytes` once in a separate step, transposed if `turns`.
  double pass(int64_t bytes, bool turns) const;

  /// Returns the cost of a pixel shuffle in a separate step, which turns digits of the channel number into space or
  /// back. `digit` is the number of innermost channels, 1 where they become space. Runs of `digit` channels are copied
  /// where neighbours are channels on both sides; elsewhere elements are transposed. Between whole vectors of channels
  /// and planes each element is stored alone.
  double shuffle(int64_t bytes, int64_t elements, int64_t digit, ChannelLayout from, ChannelLayout to) const;

 private:
  /// Whether an instruction on matrices reads channels in the order of `layout`.
  bool isNative(ChannelLayout layout) const;
  double operationsPerUs() const { return chip_.operationsPerSecond() * 1e-6; }
  double cyclesPerUs() const { return chip_.hertz() * 1e-6; }

  const Chip& chip_;
  const v1::CostParameters::Layouts& parameters_;
};

}  // namespace tessera::compiler
