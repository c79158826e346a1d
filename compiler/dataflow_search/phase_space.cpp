#include "compiler/dataflow_search/phase_space.h"

#include <algorithm>
#include <limits>

#include "compiler/cost/movement.h"
#include "compiler/dataflow_search/running_reductions.h"

namespace tessera::compiler::dataflow_search {
namespace {

constexpr v1::Tile::Join kJoins[] = {v1::Tile::SHAR, v1::Tile::PIPE, v1::Tile::SEQ};

bool isConcurrent(v1::Tile::Join join) { return join == v1::Tile::PARA || join == v1::Tile::PIPE; }

/// One operator's share of an option.
struct Share {
  double cycles = 0, energy = 0;
  std::array<int64_t, kMaxLevels> footprint = {}, instances = {};
  std::array<int64_t, kMaxUnits> units = {};
  std::vector<const Partial*> operators = {};
};

bool isAtLeastAsGood(const Share& left, const Share& right, const Figures& figures) {
  if (figures.cycles && left.cycles > right.cycles) return false;
  if (figures.energy && left.energy > right.energy) return false;
  return usesNoMore(left, right);
}

void addShare(std::vector<Share>& shares, Share share, const Figures& figures) {
  for (const Share& each : shares)
    if (isAtLeastAsGood(each, share, figures)) return;
  std::erase_if(shares, [&](const Share& each) { return isAtLeastAsGood(share, each, figures); });
  shares.push_back(std::move(share));
}

}  // namespace

/// The movement of the shared tiles.
struct PhaseSpace::Skeleton {
  double out = 0, in = 0;  ///< of the outermost memory
  double energy = 0;
  std::vector<double> tile_out, tile_in;    ///< bytes through the ports of each shared tile
  std::vector<double> child_out, child_in;  ///< of each operator's outermost tile
  std::vector<double> tile_instances;       ///< of each shared tile's level
  double steps = 1, instances = 1;          ///< around the operators
  std::vector<Surroundings> operators;
};

PhaseSpace::PhaseSpace(const loopnest::Nest& nest, cost::Machine machine, Figures figures, Restriction restriction,
                       std::function<bool()> stopped)
    : nest_(nest),
      machine_(std::move(machine)),
      figures_(figures),
      restriction_(std::move(restriction)),
      stopped_(std::move(stopped)),
      windows_(windowLoops(nest)),
      needed_(nest) {
  if (restriction_.ignore_limits)
    for (cost::Machine::Memory& memory : machine_.memories) memory.capacity_bytes = 0;
}

int64_t PhaseSpace::measured() const {
  int64_t all = 0;
  for (const auto& [key, fronts] : fronts_) all += fronts->measured();
  return all;
}

int64_t PhaseSpace::capacityOf(int level) const {
  const int64_t bytes = at(machine_.memories, level).capacity_bytes;
  return bytes > 0 ? bytes : std::numeric_limits<int64_t>::max();
}

OperatorFronts& PhaseSpace::frontsOf(int statement, bool alone) {
  std::unique_ptr<OperatorFronts>& fronts = fronts_[{statement, alone}];
  if (!fronts) {
    Figures figures = figures_;
    figures.resources = !alone;
    fronts = std::make_unique<OperatorFronts>(nest_, machine_, statement, figures, stopped_);
  }
  return *fronts;
}

std::vector<int> PhaseSpace::sharedLoops(int begin, int end, bool running) const {
  // A statement is inside of a loop that it has, or that moves one of its readers.
  std::vector<int> loops;
  for (int loop = 0; loop < static_cast<int>(nest_.loops.size()); ++loop) {
    if (at(windows_, loop)) continue;
    if (end - begin > 1 && !restriction_.shared_loops.empty() && !at(restriction_.shared_loops, loop)) continue;
    std::vector<bool> moved(nest_.statements.size(), false);
    bool all = true;
    for (int s = end - 1; s >= begin; --s) {
      const loopnest::Statement& statement = at(nest_.statements, s);
      bool own = std::ranges::find(statement.loops, loop) != statement.loops.end();
      bool read_inside = false, follows = false;
      for (int r = s + 1; r < end; ++r) {
        for (const int input : at(nest_.statements, r).inputs) {
          if (at(nest_.accesses, input).name != at(nest_.accesses, statement.output).name) continue;
          read_inside = true;
          follows = follows || at(moved, r);
        }
      }
      const bool sums = own && !at(nest_.accesses, statement.output).uses(loop);
      if (sums && read_inside && !(running && isRunningReduction(nest_, s, loop))) all = false;
      at(moved, s) = own || follows;
      all = all && at(moved, s);
    }
    if (all) loops.push_back(loop);
  }
  return loops;
}

void PhaseSpace::forEach(int begin, int end, size_t stride, const std::function<bool(double)>& accept,
                         const Visit& visit) {
  const int outermost = static_cast<int>(machine_.memories.size()) - 1;
  Extents extents;
  for (const loopnest::Loop& loop : nest_.loops) extents.push_back(loop.extent);
  const bool alone = end - begin == 1;
  for (const bool running : {false, true}) {
    const std::vector<int> loops = sharedLoops(begin, end, running);
    if (running && (alone || loops == sharedLoops(begin, end, false))) continue;
    for (int split = outermost; split >= (alone ? outermost : 1); --split) {
      for (const v1::Tile::Join join : kJoins) {
        const std::vector<v1::Tile::Join>& accepted = restriction_.joins;
        if (alone ? join != v1::Tile::SHAR : !accepted.empty() && std::ranges::find(accepted, join) == accepted.end())
          continue;
        SharedTiles shared{.begin = begin, .end = end, .join = join, .running = running, .tiles = {}};
        Enumeration enumeration{split, loops, moversOf(nest_, begin, end), stride, accept, visit};
        visitTiles(shared, enumeration, extents);
      }
    }
  }
}

void PhaseSpace::visitTiles(SharedTiles& shared, Enumeration& enumeration, const Extents& extents) {
  const int level = static_cast<int>(machine_.memories.size()) - 1 - static_cast<int>(shared.tiles.size());
  const int64_t fan_out =
      std::max<int64_t>(1, at(machine_.memories, level - 1).instances / at(machine_.memories, level).instances);
  const bool joins = level == enumeration.split;
  forEachCut(extents, enumeration.loops, fan_out, [&](const TileLoops& spatial, const TileLoops& temporal) {
    size_t& seen = joins ? enumeration.seen : enumeration.seen_outside;
    if (++seen % enumeration.stride != 0) return !stopped_();
    // Neither the cycles of computation nor running reductions depend on the order.
    TileLoops all = spatial;
    all.insert(all.end(), temporal.begin(), temporal.end());
    Extents left = extents;
    for (const TileLoop& loop : all) at(left, loop.loop) = loop.step;
    shared.tiles.push_back(std::move(all));
    const bool accepted =
        enumeration.accept(computeCycles(shared)) && (!joins || !shared.running || cutsRunningReduction(shared));
    if (accepted) {
      for (const TileLoops& order : ordersOf(temporal, enumeration.movers)) {
        std::ranges::copy(order, shared.tiles.back().begin() + static_cast<std::ptrdiff_t>(spatial.size()));
        if (!joins) {
          visitTiles(shared, enumeration, left);
        } else if (const auto skeleton = measure(shared)) {
          ++enumeration.visited;
          enumeration.visit(shared, lowerBound(shared, *skeleton));
        }
      }
    }
    shared.tiles.pop_back();
    return !stopped_() && !enumeration.isEnough();
  });
}

/// Trees without running reductions are visited once.
bool PhaseSpace::cutsRunningReduction(const SharedTiles& shared) const {
  for (const TileLoops& tile : shared.tiles)
    for (const TileLoop& loop : tile)
      for (int s = shared.begin; s < shared.end; ++s)
        if (isRunningReduction(nest_, s, loop.loop)) return true;
  return false;
}

const PhaseSpace::Part& PhaseSpace::partOf(int begin, int end) const {
  const auto [found, is_new] = parts_.try_emplace({begin, end});
  Part& part = found->second;
  if (!is_new) return part;
  part.nest = nest_;
  part.nest.statements.assign(nest_.statements.begin() + begin, nest_.statements.begin() + end);
  for (const loopnest::Statement& statement : part.nest.statements) {
    const std::string& written = at(nest_.accesses, statement.output).name;
    for (int s = end; s < static_cast<int>(nest_.statements.size()); ++s)
      for (const int input : at(nest_.statements, s).inputs)
        if (at(nest_.accesses, input).name == written) part.read_outside.push_back(written);
  }
  return part;
}

/// Cycles if every instance inside of the shared tiles works all the time.
double PhaseSpace::computeCycles(const SharedTiles& shared) const {
  std::vector<int64_t> parts(nest_.loops.size(), 1);
  double inside = 1, steps = 1;
  for (const TileLoops& tile : shared.tiles) {
    steps *= temporalSteps(tile);
    for (const TileLoop& loop : tile)
      if (loop.spatial) at(parts, loop.loop) *= loop.count;
  }
  for (auto level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size()); level > 0; --level)
    inside *= static_cast<double>(
        std::max<int64_t>(1, at(machine_.memories, level - 1).instances / at(machine_.memories, level).instances));
  const cost::Machine::Memory& innermost = machine_.memories.front();
  parts.push_back(static_cast<int64_t>(shared.tiles.size()));
  std::vector<double>& of_statements = compute_cycles_[parts];
  if (of_statements.empty()) {
    parts.pop_back();
    double rate = 0;
    for (const cost::Machine::Unit& unit : machine_.units)
      rate = std::max(rate, unit.operations_per_cycle *
                                static_cast<double>(std::max<int64_t>(1, unit.count / innermost.instances)));
    for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s) {
      const NeededWork work = neededWork(nest_, needed_, s, parts);
      of_statements.push_back(
          std::max({work.operations / (rate * inside), work.read_bytes / (innermost.read_bytes_per_cycle * inside),
                    work.written_bytes / (innermost.write_bytes_per_cycle * inside)}));
    }
  }
  double cycles = 0;
  const bool concurrent = isConcurrent(shared.join) && shared.end - shared.begin > 1;
  for (int s = shared.begin; s < shared.end; ++s) {
    const double own = std::max(steps, at(of_statements, s));
    cycles = concurrent ? std::max(cycles, own) : cycles + own;
  }
  return cycles;
}

void PhaseSpace::addLoops(v1::Tile& tile, const TileLoops& loops) const {
  for (const TileLoop& loop : loops) {
    v1::Loop* added = tile.add_loops();
    added->set_dimension(at(nest_.loops, loop.loop).name);
    added->set_step(loop.step);
    if (loop.spatial) added->set_unit(machine_.units[0].name);
  }
}

v1::Tile PhaseSpace::shellOf(const SharedTiles& shared, int first_nest) const {
  v1::Tile outermost;
  v1::Tile* tile = &outermost;
  int level = static_cast<int>(machine_.memories.size()) - 1;
  for (size_t i = 0; i < shared.tiles.size(); ++i, --level) {
    if (i > 0) tile = tile->add_children();
    tile->set_level(at(machine_.memories, level).name);
    addLoops(*tile, shared.tiles[i]);
    tile->set_join(v1::Tile::SEQ);
    tile->set_deferred_softmax(shared.running);
  }
  if (shared.end - shared.begin > 1) tile->set_join(shared.join);
  for (int s = shared.begin; s < shared.end; ++s) {
    v1::Tile* leaf = tile->add_children();
    leaf->set_level(at(machine_.memories, level).name);
    leaf->mutable_kernel()->set_variant("compute");
    leaf->mutable_kernel()->set_nest(s - first_nest);
  }
  return outermost;
}

std::unique_ptr<PhaseSpace::Skeleton> PhaseSpace::measure(const SharedTiles& shared) const {
  const Part& part = partOf(shared.begin, shared.end);
  v1::Schedule schedule;
  *schedule.add_phases() = shellOf(shared, shared.begin);
  auto bound = bindTree(part.nest, schedule, machine_);
  if (!bound.ok()) return nullptr;
  const int first = 1, tiles = static_cast<int>(shared.tiles.size());
  const int first_child = first + tiles, children = shared.end - shared.begin, joining = first_child - 1;
  // A further statement, outside of all tiles, stands for readers in other phases.
  bound->statements.emplace_back().leaf = 0;
  for (const std::string& name : part.read_outside)
    at(bound->readers, static_cast<int>(std::ranges::find(bound->tensors, name) - bound->tensors.begin()))
        .push_back(children);
  for (int child = first_child; child < first_child + children; ++child)
    at(bound->nodes, child).statement = -1;  // what moves inside of the operators is not measured here
  auto skeleton = std::make_unique<Skeleton>();
  skeleton->tile_out.assign(shared.tiles.size(), 0);
  skeleton->tile_in = skeleton->tile_out;
  skeleton->child_out.assign(static_cast<size_t>(children), 0);
  skeleton->child_in = skeleton->child_out;
  const bool exclusive = shared.join == v1::Tile::SEQ && children > 1;
  std::vector<int64_t> footprint(machine_.memories.size(), 0), of_child(static_cast<size_t>(children), 0);
  for (const cost::Boundary& boundary : boundariesOf(*bound)) {
    if (boundary.tile < first || boundary.tile > joining) continue;
    const double word = at(bound->word_bytes, boundary.tensor);
    const double sent = (boundary.read_words + boundary.partial_words) * word, updated = boundary.update_words * word;
    if (boundary.source == 0) {
      skeleton->out += sent;
      skeleton->in += updated;
    } else {
      at(skeleton->tile_out, boundary.source - first) += sent;
      at(skeleton->tile_in, boundary.source - first) += updated;
    }
    const double received = (boundary.filled_words + boundary.partial_words) * word,
                 drained = boundary.drained_words * word;
    const int member = boundary.members.front();
    (member < first_child ? at(skeleton->tile_in, member - first) : at(skeleton->child_in, member - first_child)) +=
        received;
    (member < first_child ? at(skeleton->tile_out, member - first) : at(skeleton->child_out, member - first_child)) +=
        drained;
    skeleton->energy +=
        (sent + updated) * at(machine_.memories, at(bound->nodes, boundary.source).level).energy_pj_per_byte +
        (received + drained) * at(machine_.memories, boundary.level).energy_pj_per_byte;
    const int64_t bytes = boundary.words * at(bound->word_bytes, boundary.tensor);
    if (boundary.tile == joining && exclusive) {
      for (const int each : boundary.members) at(of_child, each - first_child) += bytes;
    } else {
      at(footprint, boundary.level) += bytes;
    }
  }
  if (exclusive) at(footprint, at(bound->nodes, first_child).level) += *std::ranges::max_element(of_child);
  for (int level = 0; level + 1 < static_cast<int>(footprint.size()); ++level)
    if (at(footprint, level) > capacityOf(level)) return nullptr;
  double instances = 1;
  for (const TileLoops& tile : shared.tiles) {
    skeleton->tile_instances.push_back(instances);
    instances *= static_cast<double>(instancesOf(tile));
    skeleton->steps *= temporalSteps(tile);
  }
  skeleton->instances = instances;
  const int child_level = at(bound->nodes, first_child).level;
  if (children > 1 && isConcurrent(shared.join) && !restriction_.ignore_limits &&
      instances * children > static_cast<double>(at(machine_.memories, child_level).instances))
    return nullptr;
  for (int s = shared.begin; s < shared.end; ++s) {
    const int child = s - shared.begin;
    const auto& readers = at(bound->readers, at(bound->accesses, child).back().tensor);
    Surroundings& around = skeleton->operators.emplace_back();
    around.view = at(bound->statements, child);
    around.shared = around.view.loops.size();
    around.evicting = exclusive;
    around.consumed_inside =
        !readers.empty() && std::ranges::all_of(readers, [&](int reader) { return reader < children; });
  }
  return skeleton;
}

PhaseCost PhaseSpace::total(const SharedTiles& shared, const Skeleton& skeleton, double children, double energy) const {
  PhaseCost cost{.cycles = children, .out = skeleton.out, .in = skeleton.in, .energy = skeleton.energy + energy};
  for (size_t tile = shared.tiles.size(); tile-- > 0;) {
    const cost::Machine::Memory& memory = machine_.memories[machine_.memories.size() - 1 - tile];
    cost.cycles =
        std::max({cost.cycles, skeleton.tile_out[tile] / (skeleton.tile_instances[tile] * memory.read_bytes_per_cycle),
                  skeleton.tile_in[tile] / (skeleton.tile_instances[tile] * memory.write_bytes_per_cycle)});
  }
  return cost;
}

PhaseCost PhaseSpace::lowerBound(const SharedTiles& shared, const Skeleton& skeleton) const {
  const auto level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size());
  const cost::Machine::Memory& memory = at(machine_.memories, level);
  const cost::Machine::Memory& innermost = machine_.memories.front();
  double cycles = 0, energy = 0, inside = 1;
  for (int inner = level; inner > 0; --inner)
    inside *= static_cast<double>(
        std::max<int64_t>(1, at(machine_.memories, inner - 1).instances / at(machine_.memories, inner).instances));
  for (size_t i = 0; i < skeleton.operators.size(); ++i) {
    const int s = shared.begin + static_cast<int>(i);
    const Surroundings& around = skeleton.operators[i];
    double operations = at(nest_.statements, s).body.flops;
    for (const int loop : at(nest_.statements, s).loops)
      operations *= static_cast<double>(at(around.view.extents.back(), loop));
    double rate = 0;
    for (const cost::Machine::Unit& unit : machine_.units)
      rate = std::max(rate, inside * unit.operations_per_cycle *
                                static_cast<double>(std::max<int64_t>(1, unit.count / innermost.instances)));
    const double fastest = std::max(1.0, operations / rate);
    const double own =
        std::max({fastest * skeleton.steps, skeleton.child_out[i] / (skeleton.instances * memory.read_bytes_per_cycle),
                  skeleton.child_in[i] / (skeleton.instances * memory.write_bytes_per_cycle)});
    cycles = isConcurrent(shared.join) && skeleton.operators.size() > 1 ? std::max(cycles, own) : cycles + own;
    energy += operations * skeleton.steps * skeleton.instances * machine_.energy_pj_per_operation;
  }
  return total(shared, skeleton, std::max(cycles, computeCycles(shared)), energy);
}

std::vector<PhaseOption> PhaseSpace::options(const SharedTiles& shared) {
  const std::unique_ptr<Skeleton> skeleton = measure(shared);
  if (!skeleton) return {};
  const auto level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size());
  const cost::Machine::Memory& memory = at(machine_.memories, level);
  const bool several = shared.end - shared.begin > 1, concurrent = several && isConcurrent(shared.join),
             exclusive = several && shared.join == v1::Tile::SEQ;
  const double all = skeleton->steps * skeleton->instances;
  std::vector<Share> joined = {Share{}};
  for (size_t i = 0; i < skeleton->operators.size(); ++i) {
    const Front& front = frontsOf(shared.begin + static_cast<int>(i), !several).front(skeleton->operators[i], level);
    if (stopped_()) return {};
    std::vector<Share> shares, next;
    for (const Partial& partial : front) {
      Share share;
      share.cycles =
          std::max({partial.inner * skeleton->steps,
                    (partial.out * all + skeleton->child_out[i]) / skeleton->instances / memory.read_bytes_per_cycle,
                    (partial.in * all + skeleton->child_in[i]) / skeleton->instances / memory.write_bytes_per_cycle});
      share.energy = partial.energy * all;
      share.footprint = partial.footprint;
      share.instances = partial.instances;
      share.units = partial.units;
      share.operators = {&partial};
      addShare(shares, std::move(share), figures_);
    }
    for (const Share& left : joined) {
      for (const Share& right : shares) {
        Share sum = left;
        sum.cycles = concurrent ? std::max(left.cycles, right.cycles) : left.cycles + right.cycles;
        sum.energy += right.energy;
        bool fits = true;
        for (size_t inner = 0; inner < machine_.memories.size(); ++inner) {
          sum.footprint[inner] = exclusive ? std::max(left.footprint[inner], right.footprint[inner])
                                           : left.footprint[inner] + right.footprint[inner];
          sum.instances[inner] = concurrent ? left.instances[inner] + right.instances[inner]
                                            : std::max(left.instances[inner], right.instances[inner]);
          fits = fits && sum.footprint[inner] <= capacityOf(static_cast<int>(inner)) &&
                 static_cast<double>(sum.instances[inner]) * skeleton->instances <=
                     static_cast<double>(machine_.memories[inner].instances);
        }
        for (size_t unit = 0; unit < machine_.units.size(); ++unit) {
          sum.units[unit] =
              concurrent ? left.units[unit] + right.units[unit] : std::max(left.units[unit], right.units[unit]);
          fits = fits && static_cast<double>(sum.units[unit]) * skeleton->instances <=
                             static_cast<double>(machine_.units[unit].count);
        }
        if (!fits && !restriction_.ignore_limits) continue;
        sum.operators.push_back(right.operators.front());
        addShare(next, std::move(sum), figures_);
      }
    }
    joined = std::move(next);
  }
  std::vector<PhaseOption> options;
  for (Share& share : joined)
    options.push_back({.cost = total(shared, *skeleton, share.cycles, share.energy),
                       .shared = 0,
                       .operators = std::move(share.operators)});
  return options;
}

v1::Tile PhaseSpace::tree(const SharedTiles& shared, const std::vector<const Partial*>& operators) const {
  v1::Tile outermost = shellOf(shared, 0);
  v1::Tile* joining = &outermost;
  for (size_t i = 1; i < shared.tiles.size(); ++i) joining = joining->mutable_children(0);
  const auto first_level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size());
  for (size_t i = 0; i < operators.size(); ++i) {
    v1::Tile* tile = joining->mutable_children(static_cast<int>(i));
    const v1::Kernel kernel = tile->kernel();
    tile->clear_kernel();
    int level = first_level;
    for (const Partial* partial = operators[i];; partial = &(*partial->inside)[partial->choice], --level) {
      tile->set_level(at(machine_.memories, level).name);
      addLoops(*tile, partial->loops);
      if (partial->inside == nullptr) {
        *tile->mutable_kernel() = kernel;
        if (partial->unit > 0) tile->mutable_kernel()->set_instruction(at(machine_.units, partial->unit).name);
        break;
      }
      tile->set_join(v1::Tile::SEQ);
      tile = tile->add_children();
    }
  }
  return outermost;
}

}  // namespace tessera::compiler::dataflow_search
