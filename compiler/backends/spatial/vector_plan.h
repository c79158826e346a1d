#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/shared_cache.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "compiler/backends/spatial/vector_unit.h"
#include "tessera/v1/schedule.pb.h"

/// Nests on vector units: tiles whose operands fit the unit's memory twice, shared among the units.
namespace tessera::compiler::simulator {

struct VectorPlan {
  std::string unit;
  std::vector<int64_t> tile;  ///< iterations of each loop in a tile
  bool operator==(const VectorPlan&) const = default;
};

/// What a nest on a vector unit takes.
struct VectorCost {
  double cycles = 0;
  double unit_cycles = 0;  ///< part of `cycles` in which the busiest instance computes
  double operations = 0;   ///< of all instances
  double energy_pj = 0;
  struct Level {
    std::string name;
    int64_t read_bytes = 0, written_bytes = 0, peak_bytes = 0;
    double energy_pj = 0;
  };
  std::vector<Level> levels;  ///< as in VectorUnit::levels
};

/// The tiles of the lowest cost among some sizes, on the unit of the lowest cost. FAILED_PRECONDITION naming the
/// operation or the level if no unit can run the nest.
absl::StatusOr<VectorPlan> planVector(const SpatialNest& nest, const v1::Target& target);

/// Cost of a plan. Copies of the next tile overlap the computation of a tile. A tile of an operand is copied again
/// whenever a loop around it moves it; a level that caches the operand's whole content serves all copies but the first.
/// FAILED_PRECONDITION if the tile does not fit.
/// `warm`: accesses whose elements a cache holds before; the cache serves all their reads.
absl::StatusOr<VectorCost> costOf(const VectorPlan& plan, const SpatialNest& nest, const v1::Target& target,
                                  const WarmTensors& warm = {});

/// The plan as a tile tree: loops over tiles at the outermost level, the leaf at the unit's level.
v1::Tile treeOf(const VectorPlan& plan, const SpatialNest& nest, int number, const v1::Target& target);

/// The plan of such a tree at `path`; INVALID_SCHEDULE with the path of the tile at fault, "3.0".
absl::StatusOr<VectorPlan> vectorPlanOf(const v1::Tile& tree, const SpatialNest& nest, int number,
                                        const std::string& path, const v1::Target& target);

}  // namespace tessera::compiler::simulator
