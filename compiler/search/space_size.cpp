#include "compiler/search/space_size.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/summary.h"
#include "compiler/search/legality.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

constexpr int kSpatialParts = 4, kReductionParts = 2;  // factors per loop in the thesis's templates for CPUs
constexpr double kFetches = 5 * 2 * 2 * 2;             // prefetch distance, rows, panel, results

double logFactorial(size_t count) { return std::lgamma(static_cast<double>(count) + 1) / std::log(10.0); }

/// Tiles of 1 to the extent, each without blocks, with blocks of its multiples below the extent, or with such blocks
/// nested in larger ones.
double tilesAndBlocks(int64_t extent, bool blocks) {
  // number of ways to put further blocks around this step
  std::vector<double> around(static_cast<size_t>(extent) + 1, 1);
  for (int level = 0; blocks && level < kMaxBlockLevels; ++level) {
    std::vector<double> more(around.size(), 1);
    for (int64_t step = 1; step < extent; ++step)
      for (int64_t block = 2 * step; block < extent; block += step) more[step] += around[block];
    around = std::move(more);
  }
  double choices = 0;
  for (int64_t tile = 1; tile <= std::min(extent, kMaxInTile); ++tile) choices += around[tile];
  return choices;
}

}  // namespace

int64_t factorizations(int64_t extent, int factors) {
  if (factors == 1) return 1;
  int64_t ways = 0;
  for (int64_t first = 1; first <= extent; ++first)
    if (extent % first == 0) ways += factorizations(extent / first, factors - 1);
  return ways;
}

double thesisSize(const std::vector<int64_t>& spatial, const std::vector<int64_t>& reductions) {
  double size = 0;
  for (const int64_t extent : spatial) size += std::log10(static_cast<double>(factorizations(extent, kSpatialParts)));
  for (const int64_t extent : reductions)
    size += std::log10(static_cast<double>(factorizations(extent, kReductionParts)));
  return size;
}

double treeSize(const v1::Schedule& start, const Extents& extents) {
  double size = 0;
  for (const v1::Tile* leaf : leavesOf(start)) {
    const v1::Kernel& kernel = leaf->kernel();
    const KernelTraits& traits = traitsOf(kernel.variant());
    if (traits.runs != KernelTraits::Runs::kNest) continue;
    size_t parallel = 0, sums = 0;
    for (const auto& [key, extent] : extents) {
      if (key.first != kernel.nest()) continue;
      const bool reduction = key.second.starts_with("r");
      ++(reduction ? sums : parallel);
      size += std::log10(tilesAndBlocks(extent, !reduction || (traits.streams && sums == 1)));
    }
    // Loops around the tile (a block loop and a tile loop for each parallel loop); then points, and sums.
    size += logFactorial(2 * parallel) - static_cast<double>(parallel) * std::log10(2.0) + logFactorial(parallel) +
            logFactorial(sums) + std::log10(static_cast<double>(parallel) + 1);
    const size_t along = (traits.staying.empty() ? 0 : parallel) + (traits.summing.empty() ? 0 : sums);
    if (kernel.lanes() > 1 && along > 1) size += std::log10(static_cast<double>(along));
    if (sums > 0) size += std::log10(kFetches);
    size += static_cast<double>(leaf->stages_size()) * std::log10(2.0);
  }
  const double widths = start.vector_bits() > 128 ? std::log2(start.vector_bits() / 128.0) + 1 : 1;
  return size + std::log10(widths);
}

}  // namespace tessera::compiler::search
