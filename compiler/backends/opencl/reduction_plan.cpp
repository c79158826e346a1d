#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/backends/opencl/device_limits.h"
#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/opencl/reduction.h"
#include "compiler/schedule/fault.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::SpatialNest;

/// Fewer values do not pay for the barriers.
constexpr int64_t kMinReduced = 32;
/// Values that a work-item combines before the tree; fewer pay only if the device would be idle otherwise.
constexpr int64_t kMinValues = 4;
/// Points of a group along a loop whose elements are neighbours: they share a line of the cache.
constexpr int64_t kNeighbours = 16;
/// Work-items for each one of the largest group that keep a compute unit busy: more results than these are computed
/// in parallel without sharing any.
constexpr int64_t kGroupsPerUnit = 4;
/// Positions among the values are numbers of 32 bits.
constexpr int64_t kMaxReduced = int64_t{1} << 30;

}  // namespace

std::optional<NestPlan> treePlan(const SpatialNest& nest, const v1::Target& target) {
  const std::optional<Reduction> reduction = reductionOf(nest);
  if (!reduction || reduction->points < kMinReduced || reduction->points > kMaxReduced) return std::nullopt;
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  int64_t results = 1;
  int inner = -1;  // the innermost parallel loop
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    if (!parallel[l] || nest.loops[l].extent == 1) continue;
    results = loopnest::saturatedProduct(results, nest.loops[l].extent);
    inner = static_cast<int>(l);
  }
  const int nearest = nearestLoopOf(*reduction);
  const bool along_results = nearest >= 0 && parallel[static_cast<size_t>(nearest)];
  const int64_t units = target.units_size() > 0 ? std::max(1, target.units(0).count()) : 1;
  const bool idle = results < units * kGroupItems;
  if (along_results ? results >= units * maxItems(target) * kGroupsPerUnit
                    : !idle && reduction->points < kGroupItems * kMinValues)
    return std::nullopt;
  NestPlan plan{.form = NestPlan::Form::kTree};
  plan.group.assign(nest.loops.size(), 1);
  const int64_t limit = std::min({kGroupItems, maxItems(target), localBytes(target) / valueBytes(reduction->type)});
  if (limit < 2) return std::nullopt;
  plan.tree_items = std::min(limit, powerWithin(reduction->points / kMinValues));
  const int shared = along_results ? nearest : inner;
  if (shared >= 0 && (along_results || plan.tree_items < limit)) {
    const int64_t extent = nest.loops[static_cast<size_t>(shared)].extent;
    int64_t& points = plan.group[static_cast<size_t>(shared)];
    points = std::min(powerWithin(extent), along_results ? std::min(kNeighbours, limit) : limit / plan.tree_items);
    plan.tree_items = std::min(plan.tree_items, limit / points);
  }
  if (plan.tree_items < 2) return std::nullopt;
  return plan;
}

absl::StatusOr<NestPlan> treePlanOf(const v1::Tile& tree, const SpatialNest& nest, int number,
                                    const v1::Target& target) {
  const auto fault = [&](const std::string& message, const std::string& found, const std::string& accepted) {
    return scheduleFault(absl::StrCat(number), message, found, accepted);
  };
  const std::optional<Reduction> reduction = reductionOf(nest);
  if (!reduction || reduction->points > kMaxReduced)
    return fault("the nest combines no values in any order", std::string(kTreeVariant), std::string(kItemsVariant));
  NestPlan plan{.form = NestPlan::Form::kTree};
  plan.group.assign(nest.loops.size(), 1);
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  int64_t points = 1;
  int dimensions = 0;
  for (const v1::Loop& loop : tree.loops()) {
    if (loop.dimension() == kReducedDimension) {
      plan.tree_items = loop.step();
      continue;
    }
    const auto found = std::ranges::find(nest.loops, loop.dimension(), &loopnest::Loop::name);
    const auto l = static_cast<size_t>(found - nest.loops.begin());
    if (found == nest.loops.end() || !parallel[l] || loop.step() < 1 || loop.step() > found->extent)
      return fault("no loop whose points are independent", absl::StrCat(loop.dimension(), "/", loop.step()),
                   "a parallel loop of the nest, with a step within its extent");
    plan.group[l] = loop.step();
    dimensions += loop.step() > 1;
    points = loopnest::saturatedProduct(points, loop.step());
  }
  if (plan.tree_items < 2 || plan.tree_items > maxItems(target) || powerWithin(plan.tree_items) != plan.tree_items)
    return fault("work-items that no tree combines", absl::StrCat(std::string(kReducedDimension), "/", plan.tree_items),
                 absl::StrCat("a power of two from 2 to ", maxItems(target)));
  const int64_t items = loopnest::saturatedProduct(points, plan.tree_items);
  if (dimensions > 1 || items > maxItems(target) || items * valueBytes(reduction->type) > localBytes(target))
    return fault("a work-group that the device cannot run",
                 absl::StrCat(items, " work-items along ", dimensions, " loops"),
                 absl::StrCat("at most ", maxItems(target), " work-items along 1 loop, with ",
                              valueBytes(reduction->type), " of ", localBytes(target), " bytes of local memory each"));
  return plan;
}

}  // namespace tessera::compiler::opencl
