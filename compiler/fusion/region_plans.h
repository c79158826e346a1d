#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/fusion/region_planner.h"

namespace tessera::compiler::fusion {

/// Plans regions of one graph. Regions that differ only in the numbers and names of their nodes and tensors, such as
/// those of equal layers, are planned once. Not thread-safe; `graph` and `chip` must outlive it.
class RegionPlans {
 public:
  RegionPlans(const RegionGraph& graph, const Chip& chip, RegionLevels levels);

  /// Returns planRegion(graph, nodes, chip, levels).
  std::optional<Region> of(const std::vector<int>& nodes);

  const RegionGraph& graph() const { return graph_; }
  /// Number of calls of planRegion() so far: distinct regions.
  int planned() const { return static_cast<int>(known_.size()); }

 private:
  RegionGraph partOf(const std::vector<int>& nodes) const;

  const RegionGraph& graph_;
  const Chip& chip_;
  RegionLevels levels_;
  std::map<std::vector<int64_t>, std::optional<Region>> known_;  // keyed by everything that a region's cost depends on
};

}  // namespace tessera::compiler::fusion
