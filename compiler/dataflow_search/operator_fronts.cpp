#include "compiler/dataflow_search/operator_fronts.h"

#include <algorithm>

namespace tessera::compiler::dataflow_search {

bool dominates(const Partial& left, const Partial& right, const Figures& figures) {
  if (figures.cycles && (left.inner > right.inner || left.in > right.in || left.out > right.out)) return false;
  if (figures.energy && left.energy > right.energy) return false;
  if (figures.cycles && left.compute > right.compute) return false;
  if (!figures.resources) return !figures.cycles || left.startup + left.tail <= right.startup + right.tail;
  // Of operators that share a chip, one has the first slices and one the last results.
  if (figures.cycles && (left.startup > right.startup || left.tail > right.tail)) return false;
  return usesNoMore(left, right);
}

void addTo(Front& front, Partial partial, const Figures& figures) {
  for (const Partial& each : front)
    if (dominates(each, partial, figures)) return;
  std::erase_if(front, [&](const Partial& each) { return dominates(partial, each, figures); });
  front.push_back(std::move(partial));
}

Surroundings inside(const Surroundings& surroundings, const TileLoops& loops, size_t nest_loops) {
  Surroundings inner = surroundings;
  for (const TileLoop& loop : loops) {
    inner.view.loops.push_back(
        {.loop = loop.loop, .step = loop.step, .count = loop.count, .spatial = loop.spatial, .unit = 0, .node = 0});
    at(inner.view.advances.emplace_back(nest_loops, 0), loop.loop) = loop.step;
    inner.view.extents.emplace_back(inner.view.extents.back());
    at(inner.view.extents.back(), loop.loop) = loop.step;
  }
  return inner;
}

OperatorFronts::OperatorFronts(const loopnest::Nest& nest, const cost::Machine& machine, int statement, Figures figures,
                               std::function<bool()> stopped)
    : nest_(nest),
      machine_(machine),
      statement_(statement),
      figures_(figures),
      stopped_(std::move(stopped)),
      model_(nest, statement),
      movers_(moversOf(nest, statement, statement + 1)),
      loops_(at(nest.statements, statement).loops) {
  const std::vector<bool> windows = windowLoops(nest);
  for (const int loop : loops_)
    if (!at(windows, loop)) outer_loops_.push_back(loop);
}

const Front& OperatorFronts::front(const Surroundings& surroundings, int level, Limit limit) {
  std::vector<int64_t> key = model_.signatureOf(surroundings);
  key.push_back(level);
  const auto found = known_.find(key);
  if (found != known_.end()) {
    if (found->second.limit.covers(limit)) return *found->second.front;
    limit = {.cycles = std::max(limit.cycles, found->second.limit.cycles),
             .edges = std::max(limit.edges, found->second.limit.edges)};
  }
  Front made = level == 0 ? leaves(surroundings, limit) : tiles(surroundings, level, limit);
  const Front& kept = fronts_.emplace_back(std::move(made));
  known_.insert_or_assign(std::move(key), Known{.front = &kept, .limit = limit});
  return kept;
}

Partial OperatorFronts::edgesOf(const BoundaryBytes& bytes, int level) const {
  const cost::Machine::Memory& outer = at(machine_.memories, level);
  Partial partial;
  partial.startup = cost::Machine::cyclesFor(bytes.first_out, outer.read_bytes_per_cycle);
  partial.tail = cost::Machine::cyclesFor(bytes.last_in, outer.write_bytes_per_cycle);
  if (level == 0) return partial;
  const cost::Machine::Memory& inner = at(machine_.memories, level - 1);
  partial.startup =
      std::max(partial.startup, cost::Machine::cyclesFor(bytes.first_inner_in, inner.write_bytes_per_cycle));
  partial.tail = std::max(partial.tail, cost::Machine::cyclesFor(bytes.last_inner_out, inner.read_bytes_per_cycle));
  return partial;
}

double OperatorFronts::energyOf(const BoundaryBytes& bytes, int level) const {
  double energy = at(machine_.memories, level).energyOf(bytes.out, bytes.in);
  if (level > 0) energy += at(machine_.memories, level - 1).energyOf(bytes.inner_out, bytes.inner_in);
  return energy;
}

Front OperatorFronts::leaves(const Surroundings& surroundings, const Limit& limit) {
  Front front;
  model_.surround(surroundings);
  const double flops = at(nest_.statements, statement_).body.flops;
  for (size_t unit = 0; unit < machine_.units.size() && unit < kMaxUnits; ++unit) {
    const cost::Machine::Unit& kind = machine_.units[unit];
    const double most = flops > 0 ? kind.operations_per_cycle / flops : kind.operations_per_cycle;
    forEachLeafCut(
        surroundings.view.extents.back(), loops_, std::max<int64_t>(1, kind.count / machine_.memories[0].instances),
        most, [&](const TileLoops& spatial, const TileLoops& temporal) {
          Extents left = surroundings.view.extents.back();
          for (const TileLoop& loop : spatial) at(left, loop.loop) = loop.step;
          for (const TileLoop& loop : temporal) at(left, loop.loop) = loop.step;
          double operations = flops;
          for (const int loop : loops_) operations *= static_cast<double>(at(left, loop));
          const double cycles = temporalSteps(temporal) * std::max(1.0, operations / kind.operations_per_cycle);
          if (cycles > limit.cycles) return !stopped_();
          for (const TileLoops& order : ordersOf(temporal, movers_)) {
            TileLoops loops = spatial;
            loops.insert(loops.end(), order.begin(), order.end());
            const BoundaryBytes bytes = model_.measure(0, loops);
            Partial partial = edgesOf(bytes, 0);
            if (partial.startup + partial.tail > limit.edges) continue;
            partial.loops = std::move(loops);
            ++measured_;
            const double steps = temporalSteps(partial.loops);
            const int64_t units = instancesOf(partial.loops);
            partial.inner = partial.compute = cycles;
            partial.in = bytes.in;
            partial.out = bytes.out;
            partial.energy =
                energyOf(bytes, 0) + operations * steps * static_cast<double>(units) * machine_.energy_pj_per_operation;
            partial.units[unit] = units;
            partial.unit = static_cast<int>(unit);
            addTo(front, std::move(partial), figures_);
          }
          return !stopped_();
        });
  }
  return front;
}

Front OperatorFronts::tiles(const Surroundings& surroundings, int level, const Limit& limit) {
  Front front;
  // A sparse sample comes first: it dominates most of the rest before their insides are mapped.
  for (const size_t stride : {size_t{101}, size_t{1}}) {
    size_t seen = 0;
    forEachCut(surroundings.view.extents.back(), outer_loops_, fanOut(level),
               [&](const TileLoops& spatial, const TileLoops& temporal) {
                 if (++seen % stride != 0) return true;
                 for (const TileLoops& order : ordersOf(temporal, movers_)) {
                   TileLoops loops = spatial;
                   loops.insert(loops.end(), order.begin(), order.end());
                   if (!addTiles(surroundings, level, loops, limit, front)) break;
                 }
                 return !stopped_();
               });
  }
  return front;
}

bool OperatorFronts::addTiles(const Surroundings& surroundings, int level, const TileLoops& loops, const Limit& limit,
                              Front& front) {
  const cost::Machine::Memory& inner = at(machine_.memories, level - 1);
  const double steps = temporalSteps(loops);
  const auto instances = static_cast<double>(instancesOf(loops));
  const Extents& extents = surroundings.view.extents.back();
  double operations = at(nest_.statements, statement_).body.flops;
  for (const int loop : loops_) operations *= static_cast<double>(at(extents, loop));
  double rate = 0;
  for (const cost::Machine::Unit& unit : machine_.units)
    rate = std::max(rate, unit.operations_per_cycle *
                              static_cast<double>(std::max<int64_t>(1, unit.count / machine_.memories[0].instances)));
  for (int below = level - 1; below > 0; --below) rate *= static_cast<double>(fanOut(below));
  const double full_units = std::max(steps, operations / (rate * instances));
  if (full_units > limit.cycles) return false;
  model_.surround(surroundings);
  const BoundaryBytes bytes = model_.measure(level, loops);
  ++measured_;
  if (inner.capacity_bytes > 0 && bytes.footprint > inner.capacity_bytes) return false;
  Partial partial = edgesOf(bytes, level);
  const double startup = partial.startup, tail = partial.tail;
  partial.loops = loops;
  partial.in = bytes.in;
  partial.out = bytes.out;
  at(partial.footprint, level - 1) = bytes.footprint;
  // A lower bound for all tiles inside: full units, the ports of the buffers, one instance of each level.
  partial.inner = std::max({full_units, bytes.inner_out / instances / inner.read_bytes_per_cycle,
                            bytes.inner_in / instances / inner.write_bytes_per_cycle});
  partial.compute = full_units;
  if (partial.inner > limit.cycles || startup + tail > limit.edges) return true;
  partial.energy = energyOf(bytes, level) + operations * machine_.energy_pj_per_operation;
  at(partial.instances, level - 1) = instancesOf(loops);
  if (std::ranges::any_of(front, [&](const Partial& each) { return dominates(each, partial, figures_); })) return true;
  const Front& choices = this->front(inside(surroundings, loops, nest_.loops.size()), level - 1,
                                     {.cycles = limit.cycles / steps, .edges = limit.edges - startup - tail});
  for (size_t choice = 0; choice < choices.size(); ++choice) {
    const Partial& child = choices[choice];
    const double child_steps = steps * instances;
    partial.inner = std::max({child.inner * steps,
                              (child.out * child_steps + bytes.inner_out) / instances / inner.read_bytes_per_cycle,
                              (child.in * child_steps + bytes.inner_in) / instances / inner.write_bytes_per_cycle});
    if (partial.inner > limit.cycles) continue;
    partial.compute = child.compute * steps;
    partial.startup = startup + child.startup;
    partial.tail = tail + child.tail;
    if (partial.startup + partial.tail > limit.edges) continue;
    partial.energy = energyOf(bytes, level) + child.energy * child_steps;
    partial.footprint = child.footprint;
    at(partial.footprint, level - 1) = bytes.footprint;
    partial.instances = child.instances;
    at(partial.instances, level - 1) = 1;
    for (int64_t& each : partial.instances) each *= instancesOf(loops);
    partial.units = child.units;
    for (int64_t& each : partial.units) each *= instancesOf(loops);
    partial.unit = child.unit;
    partial.inside = &choices;
    partial.choice = choice;
    addTo(front, partial, figures_);
  }
  return true;
}

int64_t OperatorFronts::fanOut(int level) const {
  return std::max<int64_t>(1, at(machine_.memories, level - 1).instances / at(machine_.memories, level).instances);
}

}  // namespace tessera::compiler::dataflow_search
