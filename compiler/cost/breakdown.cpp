#include "compiler/cost/breakdown.h"

#include <algorithm>

namespace tessera::compiler::cost {

Breakdown breakdownOf(const DataflowCost& cost, const Machine& machine) {
  Breakdown breakdown;
  breakdown.operations_pj = cost.operations * machine.energy_pj_per_operation;
  for (size_t level = 0; level < cost.levels.size(); ++level) {
    const LevelCost& used = cost.levels[level];
    const Machine::Memory& memory = machine.memories[level];
    double sent = 0, received = 0;  // bytes
    for (const Traffic& each : used.tensors) {
      sent += (each.read + each.drain) * each.word_bytes;
      received += (each.fill + each.update) * each.word_bytes;
    }
    const auto instances = static_cast<double>(std::max<int64_t>(1, used.units));
    breakdown.levels.push_back(
        {.name = used.name,
         .energy_pj = memory.energyOf(sent, received),
         .read_cycles = Machine::cyclesFor(sent / instances, memory.read_bytes_per_cycle),
         .write_cycles = Machine::cyclesFor(received / instances, memory.write_bytes_per_cycle)});
  }
  return breakdown;
}

}  // namespace tessera::compiler::cost
