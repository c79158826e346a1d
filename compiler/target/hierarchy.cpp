#include "compiler/target/hierarchy.h"

#include <algorithm>

namespace tessera::compiler {
namespace {

template <typename Part>
int positionOf(const std::vector<Part>& parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name, &Part::name);
  return found == parts.end() ? -1 : static_cast<int>(found - parts.begin());
}

}  // namespace

Hierarchy::Hierarchy(const v1::Target& target) {
  countUnits(target);
  const int64_t cores = units_.empty() ? 1 : units_[0].instances;
  for (const v1::MemoryLevel& described : target.memory()) {
    Figures& figures = figures_.emplace_back();
    figures.shared_by = std::max(1, described.shared_by());
    figures.read = described.bandwidth_bytes_per_cycle();
    figures.write =
        described.write_bandwidth_bytes_per_cycle() > 0 ? described.write_bandwidth_bytes_per_cycle() : figures.read;
    Level& level = levels_.emplace_back();
    level.name = described.name();
    level.unit = described.unit().empty() ? -1 : unitNamed(described.unit());
    const bool own = level.unit >= 0;
    level.instances =
        own ? units_[static_cast<size_t>(level.unit)].instances : std::max<int64_t>(1, cores / figures.shared_by);
    level.capacity_bytes = described.capacity_bytes();
    level.read_bytes_per_cycle = figures.read * (own ? 1 : figures.shared_by);
    level.write_bytes_per_cycle = figures.write * (own ? 1 : figures.shared_by);
    level.read_pj_per_byte = described.energy_pj_per_byte();
    level.write_pj_per_byte =
        described.write_energy_pj_per_byte() > 0 ? described.write_energy_pj_per_byte() : level.read_pj_per_byte;
    level.multicast = described.multicast();
  }
}

void Hierarchy::countUnits(const v1::Target& target) {
  for (const v1::ComputeUnit& unit : target.units()) {
    units_.push_back({.name = unit.name(),
                      .instances = std::max(1, unit.count()),
                      .operations_per_cycle = unit.ops_per_cycle(),
                      .frequency_ghz = unit.frequency_ghz()});
  }
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u].parent = unitNamed(target.units(static_cast<int>(u)).parent());
  }
  for (Unit& unit : units_) {
    // The number of steps is bounded because a description that is being checked may have cycles.
    int above = unit.parent;
    for (size_t step = 0; above >= 0 && step < units_.size(); ++step) {
      if (__builtin_mul_overflow(unit.instances, std::max(1, target.units(above).count()), &unit.instances)) {
        unit.instances = INT64_MAX;
      }
      above = units_[static_cast<size_t>(above)].parent;
    }
  }
  for (size_t outer = 0; outer < units_.size(); ++outer) {
    Unit& unit = units_[outer];
    if (unit.operations_per_cycle > 0) continue;
    for (size_t inner = 0; inner < units_.size(); ++inner) {
      if (!isInside(static_cast<int>(inner), static_cast<int>(outer))) continue;
      const int64_t number = units_[inner].instances / unit.instances;
      const double together = target.units(static_cast<int>(inner)).ops_per_cycle() * static_cast<double>(number);
      unit.operations_per_cycle = std::max(unit.operations_per_cycle, together);
    }
  }
}

bool Hierarchy::isInside(int inner, int outer) const {
  for (size_t step = 0; step < units_.size(); ++step) {
    inner = units_[static_cast<size_t>(inner)].parent;
    if (inner < 0 || inner == outer) return inner == outer;
  }
  return false;
}

int Hierarchy::unitNamed(std::string_view name) const { return positionOf(units_, name); }
int Hierarchy::levelNamed(std::string_view name) const { return positionOf(levels_, name); }

const Hierarchy::Unit* Hierarchy::unit(std::string_view name) const {
  const int at = unitNamed(name);
  return at < 0 ? nullptr : &units_[static_cast<size_t>(at)];
}

const Hierarchy::Level* Hierarchy::level(std::string_view name) const {
  const int at = levelNamed(name);
  return at < 0 ? nullptr : &levels_[static_cast<size_t>(at)];
}

int Hierarchy::unitOf(const v1::Intrinsic& intrinsic) const {
  if (!intrinsic.unit().empty()) return unitNamed(intrinsic.unit());
  return units_.empty() ? -1 : 0;
}

bool Hierarchy::containsUnits(int unit) const {
  return std::ranges::any_of(units_, [&](const Unit& inner) { return inner.parent == unit; });
}

int64_t Hierarchy::fanOut(int outer, int inner) const {
  return std::max<int64_t>(
      1, levels_[static_cast<size_t>(inner)].instances / levels_[static_cast<size_t>(outer)].instances);
}

Hierarchy::Share Hierarchy::shareOf(int level_position, int unit_position) const {
  const Level& level = levels_[static_cast<size_t>(level_position)];
  const Figures& figures = figures_[static_cast<size_t>(level_position)];
  const bool known = unit_position >= 0;
  const int64_t instances = known ? units_[static_cast<size_t>(unit_position)].instances : 1;
  Share share;
  int64_t parts = 1;  // units that divide the described bandwidth
  if (level.unit >= 0) {
    share.sharers = parts = std::max<int64_t>(1, instances / level.instances);
  } else {
    // A unit that is not inside of a core stands for a core. Units that do not exist take no share.
    const int64_t cores = known && isInside(unit_position, 0) ? units_[0].instances : instances;
    parts = instances / cores;
    share.sharers = std::clamp<int64_t>(figures.shared_by, 1, cores) * parts;
  }
  share.capacity_bytes = level.capacity_bytes / share.sharers;
  share.read_bytes_per_cycle = figures.read / static_cast<double>(parts);
  share.write_bytes_per_cycle = figures.write / static_cast<double>(parts);
  return share;
}

}  // namespace tessera::compiler
