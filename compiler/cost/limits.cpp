#include "compiler/cost/limits.h"

#include "absl/strings/str_cat.h"

namespace tessera::compiler::cost {

std::vector<std::string> exceededLimits(const DataflowCost& cost, const std::vector<int64_t>& units,
                                        const Machine& machine) {
  std::vector<std::string> exceeded;
  for (size_t level = 0; level < cost.levels.size(); ++level) {
    const LevelCost& used = cost.levels[level];
    const Machine::Memory& memory = machine.memories[level];
    if (memory.capacity_bytes > 0 && used.footprint_bytes > memory.capacity_bytes)
      exceeded.push_back(absl::StrCat(memory.name, ": ", used.footprint_bytes, " bytes are needed, an instance has ",
                                      memory.capacity_bytes));
    if (used.units > memory.instances)
      exceeded.push_back(
          absl::StrCat(memory.name, ": ", used.units, " instances are needed, the chip has ", memory.instances));
  }
  for (size_t unit = 0; unit < machine.units.size(); ++unit) {
    if (units[unit] > machine.units[unit].count)
      exceeded.push_back(absl::StrCat(machine.units[unit].name, ": ", units[unit], " units are needed, the chip has ",
                                      machine.units[unit].count));
  }
  return exceeded;
}

}  // namespace tessera::compiler::cost
