#include "compiler/graph/winograd/winograd_prices.h"

#include <algorithm>

#include "compiler/fusion/ceil_div.h"

namespace tessera::compiler {
namespace {

/// Share of the arithmetic peak that direct convolutions and long products reach.
constexpr double kEfficiency = 0.9;
/// A register tile's rows: with fewer blocks than that the tile is smaller and reads more for each multiplication.
constexpr double kTileRows = 6;
/// Share of a memory's bandwidth that weights reach which are read once, panel by panel.
constexpr double kStreamShare = 0.75;
/// Writing takes a line twice over the bus (it is fetched first), reading it once.
constexpr double kWriteAndRead = 3;
/// Of a level that several cores share, what one can count on.
constexpr double kSharedPart = 0.25;
/// Of the second cache level, for what lies between the stages of a slice; the filters pass through the rest.
constexpr double kSliceShare = 0.4;
/// Starting a stage and waiting for its last thread.
constexpr double kStageUs = 1;

}  // namespace

WinogradPrices::WinogradPrices(const v1::Target& target) {
  lanes_ = std::max(1, target.registers().vector_bits() / 32);
  double ghz = 1;
  double operations = 4.0 * lanes_;
  if (target.units_size() > 0) {
    if (target.units(0).frequency_ghz() > 0) ghz = target.units(0).frequency_ghz();
    if (target.units(0).ops_per_cycle() > 0) operations = target.units(0).ops_per_cycle();
  }
  cycles_per_us_ = ghz * 1000;
  operations_per_us_ = operations * cycles_per_us_;
  for (const v1::MemoryLevel& level : target.memory()) {
    if (level.bandwidth_bytes_per_cycle() <= 0) continue;
    const double part = level.shared_by() > 1 ? kSharedPart : 1;
    levels_.push_back(
        {part * static_cast<double>(level.capacity_bytes()), level.bandwidth_bytes_per_cycle() * cycles_per_us_});
  }
  if (levels_.empty()) levels_ = {{1 << 20, 16 * cycles_per_us_}, {0, 5 * cycles_per_us_}};
}

double WinogradPrices::bytesPerUs(double bytes) const {
  for (const Level& level : levels_) {
    if (level.capacity >= bytes) return level.bytes_per_us;
  }
  return levels_.back().bytes_per_us;
}

double WinogradPrices::direct(const ConvolutionShape& shape) const {
  const double pairs = static_cast<double>(shape.inputs) * static_cast<double>(shape.outputs);
  const double operations = 18.0 * pairs * static_cast<double>(shape.batch * shape.height * shape.width);
  return kStageUs + std::max(operations / (kEfficiency * operations_per_us_),
                             36.0 * pairs / (kStreamShare * levels_.back().bytes_per_us));
}

WinogradPrice WinogradPrices::of(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm) const {
  const auto positions = static_cast<double>(algorithm.positions());
  const auto blocks = static_cast<double>(shape.batch * ceilDiv(shape.height, algorithm.results) *
                                          ceilDiv(shape.width, algorithm.results));
  const auto inputs = static_cast<double>(shape.inputs), outputs = static_cast<double>(shape.outputs);
  const double share = kEfficiency * std::min(1.0, blocks / kTileRows);
  WinogradPrice price;
  price.product = kStageUs + std::max(2 * positions * blocks * inputs * outputs / (share * operations_per_us_),
                                      4 * positions * inputs * outputs / (kStreamShare * levels_.back().bytes_per_us));
  const double cycles = blocks * (inputs * algorithm.input_cycles + outputs * algorithm.output_cycles) / lanes_;
  // What lies between two stages.
  const double between = 4 * positions * blocks * (inputs + outputs);
  price.transforms = 2 * kStageUs + cycles / cycles_per_us_ + kWriteAndRead * between / bytesPerUs(between);
  considerSlices(shape, algorithm, price);
  return price;
}

/// What lies between the stages is then written and read at the private cache's rate; in exchange the filters are
/// read for each slice.
void WinogradPrices::considerSlices(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm,
                                    WinogradPrice& price) const {
  const Level& cache = levels_[levels_.size() > 2 ? levels_.size() - 3 : 0];
  const auto positions = static_cast<double>(algorithm.positions());
  const auto channels = static_cast<double>(shape.inputs + shape.outputs);
  const int64_t rows = ceilDiv(shape.height, algorithm.results);
  const double row = 4 * positions * channels * static_cast<double>(ceilDiv(shape.width, algorithm.results));
  const double filters = 4 * positions * static_cast<double>(shape.inputs) * static_cast<double>(shape.outputs);
  const double room = kSliceShare * cache.capacity;
  const auto fitting = std::max<int64_t>(1, static_cast<int64_t>(room / row));
  if (cache.capacity <= 0 || row > cache.capacity || fitting >= rows) return;
  const auto slices = static_cast<double>(shape.batch * ceilDiv(rows, fitting));
  const double between = row * static_cast<double>(shape.batch * rows);
  const double again =
      (slices - 1) * filters / (kStreamShare * bytesPerUs(filters + row * static_cast<double>(fitting)));
  const double saved = kWriteAndRead * between * (1 / bytesPerUs(between) - 1 / cache.bytes_per_us);
  if (saved <= again) return;
  price.transforms += again - saved;
  price.slice_rows = fitting;
}

}  // namespace tessera::compiler
