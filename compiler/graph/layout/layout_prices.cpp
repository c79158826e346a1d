#include "compiler/graph/layout/layout_prices.h"

#include <algorithm>

namespace tessera::compiler {
namespace {

/// Starting a step and waiting for its last thread.
constexpr double kStepUs = 0.5;
/// Cycles for each element that a transpose moves, in and out of the last cache: 2.0 to 2.3 measured for 0.2 to 12 MB
/// of f32 (`tessera run --steps` on single layers of ResNet-18 and YOLO, 2.7 GHz).
constexpr double kTransposeCycles = 2;

/// Convolutions in NCHW on both sides, vectors along a line: the part of the rate they reach where lines fill vectors.
/// Measured on one core of a Cascade Lake with `codegen_benchmark NCHW`, GFLOP/s of 150: windows of one element 92 to
/// 111 (whole planes are one line), with stride 2 86 (28 of 32 lanes filled); 3x3 50 and 61 (56 of 64 and 28 of 32
/// filled), 7x7 with stride 2 84. Where windows overlap nothing is packed and every vector straddles two lines.
constexpr double kPlanes = 0.78, kStridedPlanes = 0.65, kWindowsInPlanes = 0.45;
/// Pools and depthwise convolutions in NCHW beside a quarter of the rate, which is what is charged in blocks (27 to 93
/// GFLOP/s there, the smaller the images): 30 to 39 GFLOP/s with stride 1, 14 to 17 with stride 2 (`codegen_benchmark
/// "NCHW depthwise"`). At 0.8, images of 7x7 went to NCHW and took 72 us instead of 57.
constexpr double kSlidingInPlanes = 0.55;
/// Channels in blocks out of planes: input channels, broadcast one by one, lie a plane apart, and more of them than
/// these few are more streams and pages than are followed. Part of the time at full rate that is added: YOLO's 1x1
/// layers 83 to 109 GFLOP/s, 3x3 with stride 2 about 65.
constexpr int64_t kFewChannels = 4;
constexpr double kPlanesApart = 0.6, kWindowsApart = 1.3;
/// Planes out of blocks: every result is stored alone, in so many cycles.
constexpr double kScatterCycles = 2;

/// The largest reduction extent of an instruction that multiplies matrices: two or more loops that are not summed
/// over, one or more that are.
int64_t matrixChannels(const v1::Target& target) {
  int64_t channels = 0;
  for (const v1::Intrinsic& intrinsic : target.intrinsics()) {
    int parallel = 0;
    int64_t summed = 1;
    for (const v1::Intrinsic::IterDim& loop : intrinsic.iterations()) {
      parallel += !loop.reduction() && loop.extent() > 1;
      if (loop.reduction()) summed *= loop.extent();
    }
    if (parallel >= 2 && summed > 1) channels = std::max(channels, summed);
  }
  return channels;
}

/// Channels with what fills up blocks, and blocks to whole groups (interleave_products.h); 0 where channels are no
/// neighbours, or too few to be grouped.
int64_t filledForGroups(ChannelLayout layout, int64_t channels, int64_t group) {
  if (layout == kChannelsFirst || channels < 2 || 2 * channels < group) return 0;
  const int64_t block = layout == kChannelsLast ? channels : layout.block;
  return (channels + block - 1) / block * ((block + group - 1) / group * group);
}

}  // namespace

LayoutPrices::LayoutPrices(const v1::Target& target) {
  lanes_ = std::max(1, target.registers().vector_bits() / 32);
  instructions_ = dotProducts(usableInstructions(target));
  // A processor's matrix instructions take packed types; its f32 convolutions run on vectors.
  if (target.family() == v1::Target::SPATIAL || target.family() == v1::Target::NVPTX) cube_ = matrixChannels(target);
  cube_reads_channels_last_ = target.family() == v1::Target::NVPTX;
  double ghz = 1;
  double operations = 4.0 * static_cast<double>(lanes_);
  if (target.units_size() > 0) {
    if (target.units(0).frequency_ghz() > 0) ghz = target.units(0).frequency_ghz();
    if (target.units(0).ops_per_cycle() > 0) operations = target.units(0).ops_per_cycle();
  }
  cycles_per_us_ = ghz * 1000;
  operations_per_us_ = operations * cycles_per_us_;
  for (const v1::MemoryLevel& level : target.memory()) {
    if (level.bandwidth_bytes_per_cycle() > 0) {
      levels_.push_back({level.capacity_bytes(), level.bandwidth_bytes_per_cycle() * cycles_per_us_});
    }
  }
  if (levels_.empty()) levels_.push_back({0, 16 * cycles_per_us_});
}

double LayoutPrices::vectorShare(int64_t contiguous) const {
  const int64_t vectors = (contiguous + lanes_ - 1) / lanes_;
  return static_cast<double>(contiguous) / static_cast<double>(vectors * lanes_);
}

double LayoutPrices::writing(const Product& product, ChannelLayout layout) const {
  const int64_t filled = filledChannels(layout, product.outputs);
  double share = 0;
  if (cube_ > 0) {
    const bool native = cube_reads_channels_last_ ? layout == kChannelsLast : layout.block == cube_;
    share = native ? 1 : 1.0 / static_cast<double>(cube_);
  } else if (layout == kChannelsFirst) {
    const bool windows = product.steps > product.inputs;
    share = (windows ? kWindowsInPlanes : product.stride > 1 ? kStridedPlanes : kPlanes) * vectorShare(product.line);
  } else if (layout == kChannelsLast) {
    share = 0.93 * vectorShare(product.outputs);  // rows of the tile lie a whole pixel apart
  } else {
    share = vectorShare(layout.block);
  }
  const double more = static_cast<double>(filled) / static_cast<double>(product.outputs);
  return more * product.operations / (share * operations_per_us_);
}

double LayoutPrices::reading(const Product& product, ChannelLayout layout) const {
  const double whole = product.operations / operations_per_us_;
  const double more = static_cast<double>(filledChannels(layout, product.inputs) - product.inputs) /
                      static_cast<double>(product.inputs);
  if (cube_ > 0) {
    const bool native = cube_reads_channels_last_ ? layout == kChannelsLast : layout.block == cube_;
    return native ? more * whole : static_cast<double>(cube_ - 1) * whole;
  }
  // Without neighbours to add up at once a product runs at the rate of f32, which is what writing it is charged with.
  if (product.group > 1) {
    const int64_t filled = filledForGroups(layout, product.inputs, product.group);
    if (filled == 0) return whole;
    const auto steps = static_cast<double>(filled) / static_cast<double>(product.inputs);
    return (steps / static_cast<double>(product.group) + (layout == kChannelsLast ? 0.03 : 0)) * whole;
  }
  // Inputs are broadcast; the next pixel of a tile is a line away where channels come last.
  if (layout == kChannelsFirst) return 0;
  if (layout == kChannelsLast) return 0.03 * whole;
  return more * whole;
}

double LayoutPrices::crossing(const Product& product, ChannelLayout from, ChannelLayout to) const {
  if (cube_ > 0) return 0;
  const double whole = product.operations / operations_per_us_;
  if (from == kChannelsFirst && to != kChannelsFirst && product.inputs > kFewChannels)
    return (product.steps > product.inputs || product.stride > 1 ? kWindowsApart : kPlanesApart) * whole;
  if (to == kChannelsFirst && from != kChannelsFirst)
    return kScatterCycles * product.operations / static_cast<double>(2 * product.steps) / cycles_per_us_;
  return 0;
}

double LayoutPrices::window(double operations, int64_t channels, int64_t line, ChannelLayout layout) const {
  const double per_us = operations_per_us_ / 4;  // every point is a load
  const double more = static_cast<double>(filledChannels(layout, channels)) / static_cast<double>(channels);
  if (layout == kChannelsFirst) return operations / (kSlidingInPlanes * vectorShare(line) * per_us);
  return more * operations / (vectorShare(layout == kChannelsLast ? channels : layout.block) * per_us);
}

double LayoutPrices::pass(int64_t bytes, int64_t elements) const {
  double rate = levels_.back().bytes_per_us;
  for (const Level& level : levels_) {
    if (level.capacity < 2 * bytes && level.capacity > 0) continue;
    rate = level.bytes_per_us;
    break;
  }
  return kStepUs + std::max(2 * static_cast<double>(bytes) / rate,
                            kTransposeCycles * static_cast<double>(elements) / cycles_per_us_);
}

}  // namespace tessera::compiler
