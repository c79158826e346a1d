#include "compiler/cost/machine.h"

#include <algorithm>

#include "compiler/target/hierarchy.h"

namespace tessera::compiler::cost {
namespace {

template <typename Part>
int positionOf(const std::vector<Part>& parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name, &Part::name);
  return found == parts.end() ? -1 : static_cast<int>(found - parts.begin());
}

}  // namespace

int Machine::memoryNamed(std::string_view name) const { return positionOf(memories, name); }
int Machine::unitNamed(std::string_view name) const { return positionOf(units, name); }

Machine machineOf(const v1::Target& target) {
  Machine machine;
  const Hierarchy chip(target);
  for (const Hierarchy::Level& level : chip.levels()) {
    machine.memories.push_back({.name = level.name,
                                .instances = level.instances,
                                .capacity_bytes = level.capacity_bytes,
                                .read_bytes_per_cycle = level.read_bytes_per_cycle,
                                .write_bytes_per_cycle = level.write_bytes_per_cycle,
                                .energy_pj_per_byte = level.read_pj_per_byte,
                                .write_energy_pj_per_byte = level.write_pj_per_byte});
  }
  for (const Hierarchy::Unit& unit : chip.units()) {
    machine.units.push_back(
        {.name = unit.name, .count = unit.instances, .operations_per_cycle = unit.operations_per_cycle});
  }
  return machine;
}

}  // namespace tessera::compiler::cost
