#include "compiler/cost/machine.h"

#include <algorithm>

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
  const int64_t cores = target.units(0).count();
  for (const v1::MemoryLevel& level : target.memory()) {
    const double sharers = level.shared_by();
    const double write = level.write_bandwidth_bytes_per_cycle() > 0 ? level.write_bandwidth_bytes_per_cycle()
                                                                     : level.bandwidth_bytes_per_cycle();
    machine.memories.push_back({.name = level.name(),
                                .instances = std::max<int64_t>(1, cores / level.shared_by()),
                                .capacity_bytes = level.capacity_bytes(),
                                .read_bytes_per_cycle = level.bandwidth_bytes_per_cycle() * sharers,
                                .write_bytes_per_cycle = write * sharers,
                                .energy_pj_per_byte = level.energy_pj_per_byte()});
  }
  for (const v1::ComputeUnit& unit : target.units()) {
    machine.units.push_back({.name = unit.name(), .count = unit.count(), .operations_per_cycle = unit.ops_per_cycle()});
  }
  return machine;
}

}  // namespace tessera::compiler::cost
