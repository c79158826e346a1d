#pragma once

#include <string>

#include "tessera/v1/target.pb.h"

/// Chip descriptions for tests. Their clock is 1 GHz, so a rate per cycle is the rate per second in billions.
namespace tessera::compiler::fusion {

inline void addLevel(v1::Target& target, const std::string& name, int64_t bytes, double bytes_per_cycle,
                     int cores = 1) {
  v1::MemoryLevel& level = *target.add_memory();
  level.set_name(name);
  level.set_capacity_bytes(bytes);
  level.set_bandwidth_bytes_per_cycle(bytes_per_cycle);
  level.set_shared_by(cores);
}

/// Returns a core with `operations` per cycle, without memory; a phase takes a microsecond, a nest 0.4.
inline v1::Target coreOf(double operations) {
  v1::Target target;
  target.set_name("chip");
  target.add_units()->set_ops_per_cycle(operations);
  target.mutable_units(0)->set_frequency_ghz(1);
  v1::CostParameters::Overheads& steps = *target.mutable_cost_parameters()->mutable_overheads();
  steps.set_phase_cycles(1000);
  steps.set_nest_cycles(400);
  return target;
}

/// Returns one core of the CPU that the thesis (clients/docs/design/references.md) measures on.
inline v1::Target serverCore() {
  v1::Target target = coreOf(170);
  addLevel(target, "L1", 32 << 10, 340);
  addLevel(target, "L2", 1 << 20, 170);
  addLevel(target, "L3", 40000000, 43, 28);
  addLevel(target, "DRAM", 0, 13, 28);
  return target;
}

}  // namespace tessera::compiler::fusion
