#include "compiler/graph/winograd/winograd_cost_model.h"

#include <algorithm>

#include "compiler/cost/load_balance.h"
#include "compiler/fusion/ceil_div.h"

namespace tessera::compiler {
double WinogradCostModel::arithmeticUs(double operations) const {
  return operations / (chip_.costParameters().products().peak_share() * chip_.operationsPerSecond() * 1e-6);
}

double WinogradCostModel::weightsUs(double bytes, double growth) const {
  const Chip::Level& own = chip_.level(chip_.ownLevel().value_or(0));
  const bool near = growth * all_weights_ <= static_cast<double>(own.capacity_bytes);
  const double rate = chip_.bytesPerSecond(near ? own : chip_.levels().back()) * 1e-6;
  return bytes / (chip_.costParameters().memory().stream_bandwidth_share() * rate);
}

double WinogradCostModel::roundUpToVectors(int64_t channels) const {
  return static_cast<double>(ceilDiv(channels, chip_.lanes()) * chip_.lanes());
}

double WinogradCostModel::bytesPerUs(double bytes) const {
  const auto busy = static_cast<int>(chip_.costParameters().memory().busy_cores());
  for (const Chip::Level& level : chip_.levels())
    if (chip_.share(level, busy) >= bytes) return chip_.bytesPerSecond(level) * 1e-6;
  return chip_.bytesPerSecond(chip_.levels().back()) * 1e-6;
}

double WinogradCostModel::direct(const ConvolutionShape& shape) const {
  const double pairs = static_cast<double>(shape.inputs) * roundUpToVectors(shape.outputs);
  const double operations = 18.0 * pairs * static_cast<double>(shape.batch * shape.height * shape.width);
  return phaseUs() + std::max(arithmeticUs(operations), weightsUs(36.0 * pairs, 1));
}

WinogradCost WinogradCostModel::of(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm) const {
  const auto positions = static_cast<double>(algorithm.positions());
  const auto blocks = static_cast<double>(shape.batch * shape.blocks(algorithm.results));
  const auto inputs = static_cast<double>(shape.inputs), outputs = roundUpToVectors(shape.outputs);
  // With fewer blocks than rows of a register tile, the tile is smaller and loads more per multiplication.
  const auto rows = static_cast<double>(chip_.costParameters().products().full_tile_rows());
  const double share = std::min(1.0, blocks / rows);
  WinogradCost price;
  price.product = phaseUs() + std::max(arithmeticUs(2 * positions * blocks * inputs * outputs / share),
                                       weightsUs(4 * positions * inputs * outputs, positions / 9));
  const double cycles = blocks *
                        (roundUpToVectors(shape.inputs) * algorithm.input_cycles + outputs * algorithm.output_cycles) /
                        static_cast<double>(chip_.lanes());
  // Bytes between the stages.
  const double between = 4 * positions * blocks * (inputs + outputs);
  const double passes = chip_.costParameters().memory().transfers_per_written_line() + 1;  // plus one read
  price.transforms = 2 * phaseUs() + cycles / cyclesPerUs() + passes * between / bytesPerUs(between);
  considerSlices(shape, algorithm, price);
  return price;
}

double WinogradCostModel::idleCoreFactor(int64_t images, int64_t rows, int64_t slice) const {
  const int64_t each = ceilDiv(rows, slice);
  return loadImbalance(images * each, chip_.cores(),
                       [&](int64_t slices) { return (slices / each * rows) + std::min(slices % each * slice, rows); });
}

/// Intermediates are then written and read at the private cache's rate. In exchange the filters are read for each
/// slice, and cores with fewer slices wait.
void WinogradCostModel::considerSlices(const ConvolutionShape& shape, const WinogradAlgorithm& algorithm,
                                       WinogradCost& price) const {
  if (shape.dilation > 1) return;  // successive rows of results belong to different plain convolutions
  const Chip::Level& cache = chip_.level(chip_.ownLevel().value_or(0));
  const auto capacity = static_cast<double>(cache.capacity_bytes);
  const auto positions = static_cast<double>(algorithm.positions());
  const auto channels = static_cast<double>(shape.inputs + shape.outputs);
  const int64_t rows = ceilDiv(shape.height, algorithm.results);
  const double row = 4 * positions * channels * static_cast<double>(ceilDiv(shape.width, algorithm.results));
  const double filters = 4 * positions * static_cast<double>(shape.inputs) * static_cast<double>(shape.outputs);
  const double room = chip_.costParameters().products().winograd_slice_share() * capacity;
  const auto fitting = std::max<int64_t>(1, static_cast<int64_t>(room / row));
  if (capacity <= 0 || row > capacity || fitting >= rows) return;
  const double between = row * static_cast<double>(shape.batch * rows);
  const double passes = chip_.costParameters().memory().transfers_per_written_line() + 1;
  const double saved = passes * between * (1 / bytesPerUs(between) - 1 / (chip_.bytesPerSecond(cache) * 1e-6));
  const double whole = price.total();
  for (int64_t slice = fitting; slice > 0; --slice) {
    const auto slices = static_cast<double>(shape.batch * ceilDiv(rows, slice));
    const double again = (slices - 1) * filters /
                         (chip_.costParameters().memory().stream_bandwidth_share() *
                          bytesPerUs(filters + row * static_cast<double>(slice)));
    const double total = (whole - saved + again) * idleCoreFactor(shape.batch, rows, slice);
    if (total >= price.total()) continue;
    price.transforms = total - price.product;
    price.slice_rows = slice;
  }
}

}  // namespace tessera::compiler
