#include "compiler/backends/spatial/run_cost.h"

#include <algorithm>

#include "compiler/backends/spatial/vector_unit.h"

namespace tessera::compiler::simulator {
namespace {

double pointsOf(const std::vector<loopnest::Loop>& loops) {
  double points = 1;
  for (const loopnest::Loop& loop : loops) points *= static_cast<double>(loop.extent);
  return points;
}

}  // namespace

double frequencyGhz(const v1::Target& target) {
  for (const v1::ComputeUnit& unit : target.units())
    if (unit.frequency_ghz() > 0) return unit.frequency_ghz();
  return 0;
}

RunCost::RunCost(const v1::Target& target) : target_(target) {
  for (const v1::MemoryLevel& memory : target.memory()) {
    v1::SimulatedRun::Level* level = run_.add_levels();
    level->set_name(memory.name());
    level->set_capacity_bytes(memory.capacity_bytes());
  }
}

v1::SimulatedRun::Level& RunCost::level(const std::string& name) {
  const auto found = std::ranges::find(*run_.mutable_levels(), name, &v1::SimulatedRun::Level::name);
  if (found != run_.mutable_levels()->end()) return *found;
  v1::SimulatedRun::Level* added = run_.add_levels();  // registers
  added->set_name(name);
  return *added;
}

void RunCost::occupy(int64_t bytes) {
  if (target_.memory_size() > 0) level(target_.memory(target_.memory_size() - 1).name()).set_peak_bytes(bytes);
}

void RunCost::keep(const std::string& cache, int64_t bytes) {
  if (!cache.empty()) level(cache).set_peak_bytes(std::max(level(cache).peak_bytes(), bytes));
}

void RunCost::add(const std::string& nest, const Program& program, const Timeline& timeline) {
  v1::SimulatedRun::Step* step = run_.add_steps();
  step->set_name(nest);
  step->set_runs(1);
  step->set_cycles(timeline.cycles);
  step->set_matrix_cycles(timeline.cycles);
  step->set_energy_pj(timeline.picojoules);
  for (size_t m = 0; m < timeline.traffic.size(); ++m) {
    const Traffic& traffic = timeline.traffic[m];
    v1::SimulatedRun::Level& moved = level(traffic.memory);
    moved.set_read_bytes(moved.read_bytes() + traffic.read_bytes);
    moved.set_written_bytes(moved.written_bytes() + traffic.written_bytes);
    moved.set_energy_pj(moved.energy_pj() + traffic.picojoules);
    if (m + 1 == program.memories.size()) {
      step->set_outermost_bytes(traffic.read_bytes + traffic.written_bytes);
      continue;
    }
    int64_t peak = 0;
    for (const Buffer& buffer : program.buffers)
      if (buffer.memory == static_cast<int>(m)) peak = std::max(peak, buffer.base + buffer.bytes * buffer.copies);
    moved.set_peak_bytes(std::max(moved.peak_bytes(), peak));
  }
  Used& used = units_[program.unit];
  const double operations = 2 * pointsOf(program.choice.software.loops);
  used.busy_cycles += timeline.unit_cycles;
  used.operations += operations;
  // The share that the timeline states is that of the unit's highest rate.
  if (timeline.utilization > 0) used.peak = std::max(used.peak, operations / timeline.utilization / timeline.cycles);
  if (program.epilogue) addVector(program.epilogue->unit, timeline.vector_cycles, timeline.vector_operations);
}

void RunCost::addVector(const std::string& unit, double cycles, double operations) {
  Used& used = units_[unit];
  used.busy_cycles += cycles;
  used.operations += operations;
  for (const VectorUnit& each : elementUnitsOf(target_)) {
    if (each.unit->name() != unit) continue;
    used.peak = std::max(used.peak, static_cast<double>(each.instances) * std::max(1, each.unit->lanes()));
  }
}

void RunCost::add(const std::string& nest, const std::string& unit, const VectorCost& cost) {
  v1::SimulatedRun::Step* step = run_.add_steps();
  step->set_name(nest);
  step->set_runs(1);
  step->set_cycles(cost.cycles);
  step->set_vector_cycles(cost.cycles);
  step->set_energy_pj(cost.energy_pj);
  for (const VectorCost::Level& each : cost.levels) {
    v1::SimulatedRun::Level& moved = level(each.name);
    moved.set_read_bytes(moved.read_bytes() + each.read_bytes);
    moved.set_written_bytes(moved.written_bytes() + each.written_bytes);
    moved.set_peak_bytes(std::max(moved.peak_bytes(), each.peak_bytes));
    moved.set_energy_pj(moved.energy_pj() + each.energy_pj);
  }
  if (cost.levels.size() > 1)
    step->set_outermost_bytes(cost.levels.back().read_bytes + cost.levels.back().written_bytes);
  addVector(unit, cost.unit_cycles, cost.operations);
}

void RunCost::addNothing(const std::string& nest) {
  v1::SimulatedRun::Step* step = run_.add_steps();
  step->set_name(nest);
  step->set_runs(1);
}

v1::SimulatedRun RunCost::take() {
  double cycles = 0, energy = 0;
  for (const v1::SimulatedRun::Step& step : run_.steps()) {
    cycles += step.cycles();
    energy += step.energy_pj();
  }
  run_.set_cycles(cycles);
  run_.set_energy_pj(energy);
  if (const double frequency = frequencyGhz(target_); frequency > 0) run_.set_seconds(cycles / (frequency * 1e9));
  for (const v1::ComputeUnit& unit : target_.units()) {
    const auto found = units_.find(unit.name());
    if (found == units_.end()) continue;
    const Used& used = found->second;
    v1::SimulatedRun::Unit* written = run_.add_units();
    written->set_name(unit.name());
    written->set_busy_cycles(used.busy_cycles);
    written->set_operations(used.operations);
    if (used.peak > 0 && cycles > 0) written->set_utilization(used.operations / (used.peak * cycles));
  }
  return std::move(run_);
}

}  // namespace tessera::compiler::simulator
