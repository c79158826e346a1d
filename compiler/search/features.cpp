#include "compiler/search/features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/summary.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

constexpr bool runsNest(const KernelTraits& kernel) { return kernel.runs == KernelTraits::Runs::kNest; }
constexpr auto kVariants = [] {
  std::array<std::string_view, std::ranges::count_if(kKernels, runsNest)> names;
  std::ranges::transform(kKernels | std::views::filter(runsNest), names.begin(), &KernelTraits::name);
  return names;
}();
constexpr int kGlobal = 4, kPlain = 19, kPerLoop = 7;
constexpr int kPerLeaf = static_cast<int>(kVariants.size()) + kPlain + kPerLoop * kLoops;
constexpr std::array kGlobalNames = {"vector bits", "phases", "leaves", "slices"};
constexpr std::array kPlainNames = {"lanes",       "points",     "steps",        "loops",      "spatial",
                                    "fetch ahead", "fetch rows", "panel",        "results",    "panels",
                                    "apart",       "within",     "outside",      "last point", "instruction",
                                    "interleaved", "transposes", "copies ahead", "distance"};
constexpr std::array kLoopNames = {"tile",
                                   "block",
                                   "place of tiles",
                                   "place of blocks",
                                   "place of the sum",
                                   "outermost block",
                                   "place of outermost blocks"};

// Logarithms, since doubling a size has a similar effect at any size.
float sized(double value) { return static_cast<float>(std::log2(std::max(1.0, value)) / 8); }

void addLoops(const v1::Tile& leaf, Features& features) {
  const v1::Kernel& kernel = leaf.kernel();
  std::array<std::array<float, kPerLoop>, kLoops> loops{};
  const auto at = [&](const std::string& dimension) -> std::array<float, kPerLoop>* {
    const int number = loopNumber(dimension);
    return number < 0 || number >= kLoops ? nullptr : &loops[static_cast<size_t>(number)];
  };
  for (const v1::Extent& extent : kernel.tile())
    if (auto* loop = at(extent.dimension())) (*loop)[0] = sized(static_cast<double>(extent.size()));
  for (int place = 0; place < leaf.loops_size(); ++place) {
    const v1::Loop& each = leaf.loops(place);
    auto* loop = at(each.dimension());
    if (loop == nullptr) continue;
    const auto where = static_cast<float>(place + 1) / 8;
    if (each.step() == tileAlong(kernel, each.dimension())) {
      (*loop)[2] = where;
    } else {
      // Of several blocks, columns 1 and 3 hold the innermost one, 5 and 6 the outermost.
      const bool outermost = (*loop)[3] == 0;
      (*loop)[1] = sized(static_cast<double>(each.step()));
      (*loop)[3] = where;
      if (outermost) (*loop)[5] = (*loop)[1], (*loop)[6] = where;
    }
  }
  for (int place = 0; place < kernel.reductions_size(); ++place)
    if (auto* loop = at(kernel.reductions(place))) (*loop)[4] = static_cast<float>(place + 1) / 8;
  for (const auto& loop : loops) features.insert(features.end(), loop.begin(), loop.end());
}

void addLeaf(const v1::Tile& leaf, Features& features) {
  const v1::Kernel& kernel = leaf.kernel();
  for (const std::string_view variant : kVariants) features.push_back(kernel.variant() == variant ? 1 : 0);
  double points = 1, steps = 1;
  for (const v1::Extent& extent : kernel.tile()) {
    const auto size = static_cast<double>(pointsAlong(kernel, extent));
    (extent.dimension().starts_with("r") ? steps : points) *= size;
  }
  int spatial = 0, panels = 0, apart = 0, within = 0, outside = 0, ahead = 0;
  int64_t distance = 0;
  for (const v1::Loop& loop : leaf.loops()) spatial += loop.unit().empty() ? 0 : 1;
  for (const v1::Stage& stage : leaf.stages()) {
    panels += stage.layout() == words::kPanels ? 1 : 0;
    apart += stage.layout() == words::kApart ? 1 : 0;
    within += stage.within() ? 1 : 0;
    outside = std::max(outside, stage.outside());
    ahead = std::max(ahead, stage.ahead());
    distance = std::max(distance, stage.distance());
  }
  const v1::Prefetch& fetch = kernel.prefetch();
  // The model is fitted on rows of this order and scale: counts by logarithm (sized), small numbers as shares of a
  // generous maximum.
  const std::array<float, kPlain> plain = {
      sized(kernel.lanes()),
      sized(points),
      sized(steps),
      static_cast<float>(leaf.loops_size()) / 8,
      static_cast<float>(spatial) / 8,
      sized(fetch.ahead() + 1),
      fetch.rows() ? 1.F : 0.F,
      fetch.panel() ? 1.F : 0.F,
      fetch.results() ? 1.F : 0.F,
      static_cast<float>(panels) / 2,
      static_cast<float>(apart) / 2,
      static_cast<float>(within) / 2,
      static_cast<float>(outside) / 8,
      kernel.points().empty() ? 0.F : static_cast<float>(loopNumber(kernel.points(kernel.points_size() - 1)) + 1) / 8,
      kernel.instruction().empty() ? 0.F : 1.F,
      kernel.interleaved() ? 1.F : 0.F,
      kernel.transposed().empty() ? 0.F : 1.F,
      sized(ahead + 1),
      sized(static_cast<double>(distance))};
  features.insert(features.end(), plain.begin(), plain.end());
  addLoops(leaf, features);
}

double sliceOf(const v1::Tile& tile) {
  double size = 1;
  if (!tile.has_kernel())
    for (const v1::Loop& loop : tile.loops()) size *= static_cast<double>(std::max<int64_t>(1, loop.step()));
  for (const v1::Tile& child : tile.children()) size *= sliceOf(child);
  return size;
}

}  // namespace

size_t featureCount() { return kGlobal + static_cast<size_t>(kLeaves) * kPerLeaf; }

Features featuresOf(const v1::Schedule& schedule) {
  std::vector<const v1::Tile*> leaves;
  for (const v1::Tile* leaf : leavesOf(schedule))
    if (!copies(leaf->kernel())) leaves.push_back(leaf);
  double slices = 1;
  for (const v1::Tile& phase : schedule.phases()) slices *= sliceOf(phase);
  Features features = {sized(schedule.vector_bits()), static_cast<float>(schedule.phases_size()) / 8,
                       static_cast<float>(leaves.size()) / 8, sized(slices)};
  for (size_t leaf = 0; leaf < std::min<size_t>(leaves.size(), kLeaves); ++leaf) addLeaf(*leaves[leaf], features);
  // Zeros for missing leaves: all trees have vectors of one length.
  features.resize(featureCount(), 0);
  return features;
}

std::string featureName(size_t feature) {
  if (feature < kGlobal) return kGlobalNames[feature];
  const size_t leaf = (feature - kGlobal) / kPerLeaf;
  size_t at = (feature - kGlobal) % kPerLeaf;
  const std::string of = absl::StrCat("leaf ", leaf, " ");
  if (at < kVariants.size()) return absl::StrCat(of, std::string(kVariants[at]));
  at -= kVariants.size();
  if (at < kPlain) return absl::StrCat(of, kPlainNames[at]);
  at -= kPlain;
  return absl::StrCat(of, kLoopNames[at % kPerLoop], " ", at / kPerLoop);
}

}  // namespace tessera::compiler::search
