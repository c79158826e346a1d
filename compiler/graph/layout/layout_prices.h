#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/graph/layout/channel_layout.h"
#include "compiler/target/chip.h"

namespace tessera::compiler {

/// What layouts cost on a target, in microseconds of one core: a model that ranks, not one that predicts.
///
/// Compute: operations over the unit's rate, times how much of a vector (or matrix) instruction the innermost
/// channels fill, and v1::Prices.Layouts. Memory: bytes over the bandwidth of the innermost level that holds them, and
/// at most as many bytes a cycle as a transpose takes apart.
class LayoutPrices {
 public:
  explicit LayoutPrices(const Chip& chip) : chip_(chip), prices_(chip.prices().layouts()) {}

  /// f32 lanes of a vector register.
  int64_t lanes() const { return chip_.lanes(); }
  /// Channels of one matrix instruction, 0 without one: C0 of NC1HWC0.
  int64_t cube() const { return chip_.matrixChannels(); }
  /// Input channels that an instruction adds up at once, of elements of `bits` bits (16: bf16); 1 without such a one.
  int64_t groupOf(int bits) const { return std::max(1, compiler::groupOf(chip_.dotProducts(), bits)); }

  /// Input channels of `bits` bits that a product of tiles adds up at once, and such products' operations over those of
  /// multiply-adds in the same time; none: without such an instruction.
  struct Tiles {
    int64_t depth = 0;
    double speed = 0;
  };
  std::optional<Tiles> tilesOf(int bits) const;

  struct Product {
    double operations = 0;  ///< multiply and add count as two, without filling
    int64_t outputs = 1;    ///< output channels of one group
    int64_t inputs = 1;     ///< input channels of one group
    int64_t line = 1;       ///< output positions whose inputs are contiguous in NCHW: a row, or the plane
    int64_t steps = 1;      ///< of the sum behind one output: input channels times the window
    int64_t stride = 1;     ///< between the inputs of neighbouring positions of a line
    int64_t group = 1;      ///< input channels that an instruction adds up at once where they are neighbours
    std::optional<Tiles> tiles;
  };
  /// A convolution that writes `layout` and reads the layout that suits it best then.
  double writing(const Product& product, ChannelLayout layout) const;
  /// What reading `layout` adds to it, whatever it writes.
  double reading(const Product& product, ChannelLayout layout) const;
  /// What reading `from` and writing `to` adds to both: vectors run along the channels or along a line, and where only
  /// one side is contiguous along them the other pays.
  double crossing(const Product& product, ChannelLayout from, ChannelLayout to) const;

  /// A pool or depthwise convolution in `layout`: `operations` point by point.
  double window(double operations, int64_t channels, int64_t line, ChannelLayout layout) const;

  /// The part of whole vectors that a run of so many elements fills.
  double vectorShare(int64_t contiguous) const;

  /// Reading and writing `bytes` once in a step of its own, in another order where it turns them.
  double pass(int64_t bytes, bool turns) const;

  /// A pixel shuffle in a step of its own, which makes digits of the channel number parts of space or the other way
  /// round. `digit`: the innermost channels, 1 where they become space. It copies runs of them where neighbours are
  /// channels on both sides, and turns elements elsewhere; between whole vectors of channels and planes it stores each
  /// element alone.
  double shuffle(int64_t bytes, int64_t elements, int64_t digit, ChannelLayout from, ChannelLayout to) const;

 private:
  /// Whether an instruction on matrices reads channels as `layout` has them.
  bool isNative(ChannelLayout layout) const;
  double operationsPerUs() const { return chip_.operationsPerSecond() * 1e-6; }
  double cyclesPerUs() const { return chip_.hertz() * 1e-6; }

  const Chip& chip_;
  const v1::Prices::Layouts& prices_;
};

}  // namespace tessera::compiler
