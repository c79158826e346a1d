#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/backends/spatial/spatial_nest.h"
#include "tessera/v1/target.pb.h"

/// Units of a chip that run nests without described instructions.
namespace tessera::compiler::simulator {

/// A memory level as one instance of a unit sees it.
struct UnitLevel {
  std::string name;
  int64_t capacity = -1;             ///< bytes for one instance of the unit; -1: as large as needed
  double read = 0, write = 0;        ///< bytes per cycle for one instance; 0: takes no time
  double read_pj = 0, write_pj = 0;  ///< per byte
};

struct VectorUnit {
  const v1::ComputeUnit* unit = nullptr;
  int64_t instances = 1;
  /// The level that the unit reads and writes, then levels that cache what passes to it, then the level that holds the
  /// buffers. One level if the unit works on the latter.
  std::vector<UnitLevel> levels;
};

/// The units with rates; without any, those that no described instruction runs on, no other unit is part of, and that
/// have lanes. The order is the description's.
std::vector<VectorUnit> elementUnitsOf(const v1::Target& target);

/// The cost of one point of a nest on one unit.
struct PointCost {
  double cycles = 0, energy_pj = 0;
  double operations = 0;  ///< operations of the body that take time
};

/// The sum of the body's operations, each at its rate: of its name, else of its kind; a unit without rates takes
/// 1 / lanes cycles for each operation. A body without operations copies. Empty if a rate is missing; then `missing`
/// names the operation.
std::optional<PointCost> pointCostOf(const SpatialNest& nest, const v1::ComputeUnit& unit, std::string& missing);

}  // namespace tessera::compiler::simulator
