#include "compiler/graph/layout/layout_cost.h"

#include <algorithm>

namespace tessera::compiler {
namespace {

/// Returns the channels rounded up to blocks, and blocks to whole groups (interleave_products.h); 0 if channels are not
/// adjacent, or too few to group.
int64_t filledForGroups(ChannelLayout layout, int64_t channels, int64_t group) {
  if (layout == kChannelsFirst || channels < 2 || 2 * channels < group) return 0;
  const int64_t block = layout == kChannelsLast ? channels : layout.block;
  return (channels + block - 1) / block * ((block + group - 1) / group * group);
}

/// Returns the time of adding adjacent channels relative to multiply-adds: by groups on vectors, or on tiles, which
/// take the same time when partially filled.
double shareOfTime(const LayoutCost::Product& product, ChannelLayout layout, int64_t filled) {
  const auto inputs = static_cast<double>(product.inputs);
  const double on_vectors = static_cast<double>(filled) / inputs / static_cast<double>(product.group);
  if (!product.tiles) return on_vectors;
  const int64_t block = layout == kChannelsLast ? product.inputs : layout.block, depth = product.tiles->depth;
  const int64_t whole = (product.inputs + block - 1) / block * ((block + depth - 1) / depth * depth);
  return std::min(on_vectors, static_cast<double>(whole) / inputs / product.tiles->speed);
}

}  // namespace

bool LayoutCost::isNative(ChannelLayout layout) const {
  return chip_.matricesReadChannelsLast() ? layout == kChannelsLast : layout.block == cube();
}

std::optional<LayoutCost::Tiles> LayoutCost::tilesOf(int bits) const {
  std::optional<Tiles> best;
  const double multiply_adds = chip_.target().units(0).ops_per_cycle() / 2;
  for (const TileProduct& each : chip_.tileProducts()) {
    // A tile product multiplies groups within 32 bits, so the group size gives the width of an element.
    if (32 / each.group != bits || each.cycles <= 0) continue;
    const double speed = static_cast<double>(each.rows) * each.columns * each.depth / each.cycles / multiply_adds;
    if (!best || speed > best->speed) best = {each.depth, speed};
  }
  return best;
}

double LayoutCost::vectorShare(int64_t contiguous) const {
  const int64_t vectors = (contiguous + lanes() - 1) / lanes();
  return static_cast<double>(contiguous) / static_cast<double>(vectors * lanes());
}

double LayoutCost::writing(const Product& product, ChannelLayout layout) const {
  const int64_t filled = filledChannels(layout, product.outputs);
  double share = 0;
  // A matrix unit reads its native layout only; other layouts compute nearly nothing useful.
  if (cube() > 0) {
    share = isNative(layout) ? 1 : 1.0 / static_cast<double>(cube());
  } else if (layout == kChannelsFirst) {
    // Channels first: vectors go along a line of pixels.
    const bool windows = product.steps > product.inputs;
    share = (windows              ? parameters_.window_planes_share()
             : product.stride > 1 ? parameters_.strided_planes_share()
                                  : parameters_.planes_share()) *
            vectorShare(product.line);
  } else if (layout == kChannelsLast) {
    // Channels last: vectors go along the channels, which the last one may not fill.
    share = parameters_.innermost_share() * vectorShare(product.outputs);
  } else {
    share = vectorShare(layout.block);
  }
  // Filled channels are computed as well.
  const double more = static_cast<double>(filled) / static_cast<double>(product.outputs);
  return more * product.operations / (share * operationsPerUs());
}

double LayoutCost::reading(const Product& product, ChannelLayout layout) const {
  const double whole = product.operations / operationsPerUs();
  const double more = static_cast<double>(filledChannels(layout, product.inputs) - product.inputs) /
                      static_cast<double>(product.inputs);
  if (cube() > 0) {
    return isNative(layout) ? more * whole : static_cast<double>(cube() - 1) * whole;
  }
  // Without adjacent channels the product runs at the rate of f32, for which writing is charged.
  if (product.group > 1) {
    const int64_t filled = filledForGroups(layout, product.inputs, product.group);
    if (filled == 0) return whole;
    return (shareOfTime(product, layout, filled) + (layout == kChannelsLast ? parameters_.innermost_read() : 0)) *
           whole;
  }
  // Inputs are broadcast. With channels last, the next pixel of a tile is a line away.
  if (layout == kChannelsFirst) return 0;
  if (layout == kChannelsLast) return parameters_.innermost_read() * whole;
  return more * whole;
}

double LayoutCost::crossing(const Product& product, ChannelLayout from, ChannelLayout to) const {
  if (cube() > 0) return 0;
  const double whole = product.operations / operationsPerUs();
  // Reading many planes for a blocked result touches one line per plane.
  if (from == kChannelsFirst && to != kChannelsFirst && product.inputs > parameters_.few_planes())
    return (product.steps > product.inputs || product.stride > 1 ? parameters_.window_planes_read()
                                                                 : parameters_.planes_read()) *
           whole;
  // A blocked product that writes planes scatters each vector.
  if (to == kChannelsFirst && from != kChannelsFirst)
    return chip_.costParameters().copies().scatter_cycles() * product.operations /
           static_cast<double>(2 * product.steps) / cyclesPerUs();
  return 0;
}

double LayoutCost::window(double operations, int64_t channels, int64_t line, ChannelLayout layout) const {
  const double per_us = operationsPerUs() * parameters_.sliding_share();
  const double more = static_cast<double>(filledChannels(layout, channels)) / static_cast<double>(channels);
  if (layout == kChannelsFirst) return operations / (parameters_.sliding_planes_share() * vectorShare(line) * per_us);
  return more * operations / (vectorShare(layout == kChannelsLast ? channels : layout.block) * per_us);
}

double LayoutCost::pass(int64_t bytes, bool turns) const {
  const double rate = chip_.bytesPerSecond(chip_.levelHolding(2 * static_cast<double>(bytes))) * 1e-6;
  const double turned = turns ? static_cast<double>(bytes) / sizeof(float) : 0;  // registers of 8-bit elements hold
                                                                                 // more of them
  const double moved = std::max(2 * static_cast<double>(bytes) / rate,
                                turned * chip_.costParameters().copies().transpose_cycles() / cyclesPerUs());
  return chip_.costParameters().overheads().phase_cycles() / cyclesPerUs() + moved;
}

double LayoutCost::shuffle(int64_t bytes, int64_t elements, int64_t digit, ChannelLayout from, ChannelLayout to) const {
  const bool planes_read = from == kChannelsFirst, planes_written = to == kChannelsFirst;
  if (!planes_read && !planes_written) return pass(bytes, digit == 1);
  const bool alone = planes_read != planes_written && digit >= lanes();
  const double stores = alone ? static_cast<double>(elements) * chip_.costParameters().copies().scatter_cycles() : 0;
  return pass(bytes, true) + (stores / cyclesPerUs());
}

}  // namespace tessera::compiler
