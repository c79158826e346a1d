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
  double compute = 0, edges = 0;  ///< cycles of computation; of first slices and last results, which nothing overlaps
  double sent = 0, received = 0;  ///< cycles of ports, if the operators share them by Shar
  std::array<int64_t, kMaxLevels> footprint = {}, instances = {};
  std::array<int64_t, kMaxUnits> units = {};
  std::vector<const Partial*> operators = {};
};

bool isAtLeastAsGood(const Share& left, const Share& right, const Figures& figures) {
  if (figures.cycles && (left.cycles > right.cycles || left.compute > right.compute || left.edges > right.edges ||
                         left.sent > right.sent || left.received > right.received))
    return false;
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
  double startup = 0, tail = 0;  ///< cycles of the first slices and of the last results, which nothing overlaps
  /// Steps of the outermost tile after the first one that one loop begins, and cycles that their transfers take.
  struct Steps {
    double number = 0, cycles = 0;
  };
  std::vector<Steps> outermost;
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

void PhaseSpace::forEach(int begin, int end, size_t stride, Section section, size_t& cut,
                         const std::function<bool(double)>& accept, const Visit& visit) {
  cut = 0;
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
        SharedTiles shared{.begin = begin, .end = end, .join = join, .running = running, .tiles = {}, .split = split};
        Enumeration enumeration{split, loops, moversOf(nest_, begin, end), stride, accept, visit, section, &cut};
        visitTiles(shared, enumeration, extents);
      }
    }
  }
}

bool PhaseSpace::isOpen(const SharedTiles& shared) const {
  return static_cast<int>(machine_.memories.size() - shared.tiles.size()) > shared.split;
}

void PhaseSpace::forEachInside(const SharedTiles& shared, const std::function<bool(double)>& accept,
                               const Visit& visit) {
  Extents extents;
  for (const loopnest::Loop& loop : nest_.loops) extents.push_back(loop.extent);
  for (const TileLoops& tile : shared.tiles)
    for (const TileLoop& loop : tile) at(extents, loop.loop) = loop.step;
  SharedTiles inner = shared;
  Enumeration enumeration{shared.split,
                          sharedLoops(shared.begin, shared.end, shared.running),
                          moversOf(nest_, shared.begin, shared.end),
                          1,
                          accept,
                          visit};
  visitTiles(inner, enumeration, extents);
}

void PhaseSpace::visitTiles(SharedTiles& shared, Enumeration& enumeration, const Extents& extents) {
  const int level = static_cast<int>(machine_.memories.size()) - 1 - static_cast<int>(shared.tiles.size());
  const int64_t fan_out =
      std::max<int64_t>(1, at(machine_.memories, level - 1).instances / at(machine_.memories, level).instances);
  const bool joins = level == enumeration.split;
  forEachCut(extents, enumeration.loops, fan_out, [&](const TileLoops& spatial, const TileLoops& temporal) {
    size_t& seen = joins ? enumeration.seen : enumeration.seen_outside;
    if (++seen % enumeration.stride != 0) return !stopped_();
    if (enumeration.cut != nullptr && shared.tiles.empty() &&
        ++*enumeration.cut % enumeration.section.of != enumeration.section.number)
      return !stopped_();
    // Neither the cycles of computation nor running reductions depend on the order.
    TileLoops all = spatial;
    all.insert(all.end(), temporal.begin(), temporal.end());
    Extents left = extents;
    for (const TileLoop& loop : all) at(left, loop.loop) = loop.step;
    shared.tiles.push_back(std::move(all));
    const bool accepted =
        enumeration.accept(computeCycles(shared, true)) && (!joins || !shared.running || cutsRunningReduction(shared));
    if (accepted) {
      for (const TileLoops& order : ordersOf(temporal, enumeration.movers)) {
        std::ranges::copy(order, shared.tiles.back().begin() + static_cast<std::ptrdiff_t>(spatial.size()));
        if (!joins && enumeration.stride > 1) {
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

double PhaseSpace::computeCycles(const SharedTiles& shared, bool operands) const {
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
  std::vector<Work>& of_statements = compute_cycles_[parts];
  if (of_statements.empty()) {
    parts.pop_back();
    double rate = 0;
    for (const cost::Machine::Unit& unit : machine_.units)
      rate = std::max(rate, unit.operations_per_cycle *
                                static_cast<double>(std::max<int64_t>(1, unit.count / innermost.instances)));
    for (int s = 0; s < static_cast<int>(nest_.statements.size()); ++s) {
      const NeededWork work = neededWork(nest_, needed_, s, parts);
      of_statements.push_back({.operations = work.operations / (rate * inside),
                               .read = work.read_bytes / (innermost.read_bytes_per_cycle * inside),
                               .written = work.written_bytes / (innermost.write_bytes_per_cycle * inside)});
    }
  }
  double cycles = 0, read = 0, written = 0;
  const bool several = shared.end - shared.begin > 1, concurrent = several && isConcurrent(shared.join),
             overlaps = several && shared.join == v1::Tile::SHAR;
  for (int s = shared.begin; s < shared.end; ++s) {
    const Work& work = at(of_statements, s);
    double own = std::max(steps, work.operations);
    if (operands && !overlaps) own = std::max({own, work.read, work.written});
    read += work.read;
    written += work.written;
    cycles = concurrent ? std::max(cycles, own) : cycles + own;
  }
  return operands && overlaps ? std::max({cycles, read, written}) : cycles;
}

/// Adds the cycles of a tile's first slices and of the last results of its last child, and those of its steps between
/// if it is the outermost one.
void PhaseSpace::addTransfers(const SharedTiles& shared, const cost::BoundTree& bound,
                              const std::vector<cost::Boundary>& boundaries, int tile, int last_child,
                              Skeleton& skeleton) const {
  const size_t levels = machine_.memories.size(), position = static_cast<size_t>(tile) - 1;
  // Busy cycles of the ports of each level.
  std::vector<double> arriving(2 * levels, 0), leaving(2 * levels, 0);
  const double inside =
      at(skeleton.tile_instances, tile - 1) * static_cast<double>(instancesOf(shared.tiles[position]));
  const auto transfer = [&](const cost::Boundary& boundary, double distinct, double words, bool inwards,
                            std::vector<double>& ports) {
    const double word = at(bound.word_bytes, boundary.tensor);
    const auto outer_level = static_cast<size_t>(at(bound.nodes, boundary.source).level),
               inner_level = static_cast<size_t>(boundary.level);
    const cost::Machine::Memory& outer = machine_.memories[outer_level];
    const cost::Machine::Memory& inner = machine_.memories[inner_level];
    const double sources = boundary.source == 0 ? 1 : at(skeleton.tile_instances, boundary.source - 1);
    ports[2 * outer_level + (inwards ? 0 : 1)] += cost::Machine::cyclesFor(
        word * distinct / sources, inwards ? outer.read_bytes_per_cycle : outer.write_bytes_per_cycle);
    ports[2 * inner_level + (inwards ? 1 : 0)] += cost::Machine::cyclesFor(
        word * words / inside, inwards ? inner.write_bytes_per_cycle : inner.read_bytes_per_cycle);
  };
  for (const cost::Boundary& boundary : boundaries) {
    if (boundary.tile != tile || boundary.level < 0) continue;
    const cost::LoopMoves& fills = boundary.fills.first;
    const cost::LoopMoves& results = boundary.results.first;
    if (boundary.filled) transfer(boundary, fills.distinct, fills.words, true, arriving);
    if (boundary.drained && std::ranges::find(boundary.members, last_child) != boundary.members.end())
      transfer(boundary, results.distinct, results.words, false, leaving);
  }
  skeleton.startup += *std::ranges::max_element(arriving);
  skeleton.tail += *std::ranges::max_element(leaving);
  if (position > 0) return;
  double steps = 1;
  for (size_t i = 0; i < shared.tiles[0].size(); ++i) {
    const TileLoop& loop = shared.tiles[0][i];
    if (loop.spatial) continue;
    const double number = steps * static_cast<double>(loop.count - 1);
    steps *= static_cast<double>(loop.count);
    std::vector<double> ports(2 * levels, 0);
    for (const cost::Boundary& boundary : boundaries) {
      if (boundary.tile != tile || boundary.level < 0) continue;
      if (boundary.filled) {
        const cost::LoopMoves& moves = boundary.fills.by_loop[i];
        transfer(boundary, moves.distinct / number, moves.words / number, true, ports);
      }
      if (!boundary.drained) continue;
      const cost::LoopMoves& moves = boundary.results.by_loop[i];
      transfer(boundary, moves.distinct / number, moves.words / number, false, ports);
    }
    skeleton.outermost.push_back({.number = number, .cycles = *std::ranges::max_element(ports)});
  }
}

std::unique_ptr<PhaseSpace::Skeleton> PhaseSpace::measure(const SharedTiles& shared) const {
  const Part& part = partOf(shared.begin, shared.end);
  const bool open = isOpen(shared);
  SharedTiles shell = shared;
  if (open) shell.tiles.emplace_back();
  v1::Schedule schedule;
  *schedule.add_phases() = shellOf(shell, shared.begin);
  auto bound = bindTree(part.nest, schedule, machine_);
  if (!bound.ok()) return nullptr;
  const int first = 1, tiles = static_cast<int>(shell.tiles.size());
  const int first_child = first + tiles, children = shared.end - shared.begin, joining = first_child - 1;
  const int last = open ? joining - 1 : joining;  // the innermost tile that is measured
  // A further statement, outside of all tiles, stands for readers in other phases.
  bound->statements.emplace_back().leaf = 0;
  for (const std::string& name : part.read_outside)
    at(bound->readers, static_cast<int>(std::ranges::find(bound->tensors, name) - bound->tensors.begin()))
        .push_back(children);
  for (int child = first_child; child < first_child + children; ++child)
    at(bound->nodes, child).statement = -1;  // what moves inside of the operators is not measured here
  auto skeleton = std::make_unique<Skeleton>();
  skeleton->tile_out.assign(shell.tiles.size(), 0);
  skeleton->tile_in = skeleton->tile_out;
  skeleton->child_out.assign(static_cast<size_t>(children), 0);
  skeleton->child_in = skeleton->child_out;
  const bool exclusive = shared.join == v1::Tile::SEQ && children > 1;
  std::vector<int64_t> footprint(machine_.memories.size(), 0), of_child(static_cast<size_t>(children), 0);
  const std::vector<cost::Boundary> boundaries = boundariesOf(*bound);
  for (const cost::Boundary& boundary : boundaries) {
    if (boundary.tile < first || boundary.tile > last) continue;
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
    skeleton->energy += at(machine_.memories, at(bound->nodes, boundary.source).level).energyOf(sent, updated) +
                        at(machine_.memories, boundary.level).energyOf(drained, received);
    const int64_t bytes = boundary.words * at(bound->word_bytes, boundary.tensor);
    if (boundary.tile == joining && exclusive) {
      for (const int each : boundary.members) at(of_child, each - first_child) += bytes;
    } else {
      at(footprint, boundary.level) += bytes;
    }
  }
  if (exclusive && !open) at(footprint, at(bound->nodes, first_child).level) += *std::ranges::max_element(of_child);
  for (int level = 0; level + 1 < static_cast<int>(footprint.size()); ++level)
    if (at(footprint, level) > capacityOf(level)) return nullptr;
  double instances = 1;
  for (const TileLoops& tile : shell.tiles) {
    skeleton->tile_instances.push_back(instances);
    instances *= static_cast<double>(instancesOf(tile));
    skeleton->steps *= temporalSteps(tile);
  }
  skeleton->instances = instances;
  const int child_level = at(bound->nodes, first_child).level;
  if (children > 1 && !open && isConcurrent(shared.join) && !restriction_.ignore_limits &&
      instances * children > static_cast<double>(at(machine_.memories, child_level).instances))
    return nullptr;
  // Seq counts the slices at the begin of each operator.
  for (int tile = first; tile <= last && !(exclusive && tile == joining); ++tile)
    addTransfers(shell, *bound, boundaries, tile, tile < joining ? tile + 1 : joining + children, *skeleton);
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

PhaseCost PhaseSpace::total(const SharedTiles& shared, const Skeleton& skeleton, const Inside& inside) const {
  const cost::Machine::Memory& outermost = machine_.memories.back();
  // All steps of the outermost tile compute equally much, and each of them waits for its own transfers.
  const double computed = std::max(inside.compute, computeCycles(shared, false)),
               each = computed / temporalSteps(shared.tiles.front());
  double waited = 0;
  for (const Skeleton::Steps& steps : skeleton.outermost) waited += steps.number * std::max(0.0, steps.cycles - each);
  // Seq has first slices and last results of its children in each step, which the transfers outside may overlap.
  const bool exclusive = shared.end - shared.begin > 1 && shared.join == v1::Tile::SEQ;
  const double edges = exclusive ? 0 : inside.edges;
  PhaseCost cost{
      .cycles = std::max(inside.cycles, skeleton.startup + inside.edges + computed + waited + skeleton.tail),
      .out = skeleton.out,
      .in = skeleton.in,
      .sending = cost::Machine::cyclesFor(skeleton.out, outermost.read_bytes_per_cycle) + edges + skeleton.tail,
      .receiving = skeleton.startup + edges + cost::Machine::cyclesFor(skeleton.in, outermost.write_bytes_per_cycle),
      .energy = skeleton.energy + inside.energy};
  for (size_t tile = skeleton.tile_out.size(); tile-- > 0;) {
    const cost::Machine::Memory& memory = machine_.memories[machine_.memories.size() - 1 - tile];
    cost.cycles = std::max(
        {cost.cycles,
         cost::Machine::cyclesFor(skeleton.tile_out[tile] / skeleton.tile_instances[tile], memory.read_bytes_per_cycle),
         cost::Machine::cyclesFor(skeleton.tile_in[tile] / skeleton.tile_instances[tile],
                                  memory.write_bytes_per_cycle)});
  }
  return cost;
}

PhaseCost PhaseSpace::lowerBound(const SharedTiles& shared, const Skeleton& skeleton) const {
  const auto level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size());
  const cost::Machine::Memory& memory = at(machine_.memories, level);
  const cost::Machine::Memory& innermost = machine_.memories.front();
  double cycles = 0, energy = 0, inside = 1, sent = 0, received = 0;
  const bool several = skeleton.operators.size() > 1, concurrent = several && isConcurrent(shared.join),
             overlaps = several && shared.join == v1::Tile::SHAR;
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
    const double out = skeleton.child_out[i] / (skeleton.instances * memory.read_bytes_per_cycle),
                 in = skeleton.child_in[i] / (skeleton.instances * memory.write_bytes_per_cycle);
    const double own = overlaps ? fastest * skeleton.steps : std::max({fastest * skeleton.steps, out, in});
    sent += out;
    received += in;
    cycles = concurrent ? std::max(cycles, own) : cycles + own;
    energy += operations * skeleton.steps * skeleton.instances * machine_.energy_pj_per_operation;
  }
  if (overlaps) cycles = std::max({cycles, sent, received});
  return total(shared, skeleton, {.cycles = std::max(cycles, computeCycles(shared, true)), .energy = energy});
}

bool PhaseSpace::readsResultOf(int statement) const {
  const std::string& result = at(nest_.accesses, at(nest_.statements, statement).output).name;
  const std::vector<int>& inputs = at(nest_.statements, statement + 1).inputs;
  return std::ranges::any_of(inputs, [&](int input) { return at(nest_.accesses, input).name == result; });
}

double PhaseSpace::edgesLimit(const SharedTiles& shared, const Skeleton& skeleton, const PhaseCost& limit) const {
  if (shared.end - shared.begin > 1) return std::numeric_limits<double>::infinity();
  const PhaseCost least = total(shared, skeleton, {});
  // total() also counts ports of the shared tiles, which are busy during startup and tail.
  const double computed = computeCycles(shared, false), each = computed / temporalSteps(shared.tiles.front());
  double serial = skeleton.startup + computed + skeleton.tail;
  for (const Skeleton::Steps& steps : skeleton.outermost) serial += steps.number * std::max(0.0, steps.cycles - each);
  return std::min({limit.cycles - serial, limit.sending - least.sending, limit.receiving - least.receiving});
}

std::vector<PhaseOption> PhaseSpace::options(const SharedTiles& shared, const PhaseCost& limit) {
  const std::unique_ptr<Skeleton> skeleton = measure(shared);
  if (!skeleton) return {};
  const auto level = static_cast<int>(machine_.memories.size() - 1 - shared.tiles.size());
  const cost::Machine::Memory& memory = at(machine_.memories, level);
  const bool several = shared.end - shared.begin > 1, concurrent = several && isConcurrent(shared.join),
             exclusive = several && shared.join == v1::Tile::SEQ, overlaps = several && !concurrent && !exclusive;
  const double all = skeleton->steps * skeleton->instances;
  const bool pipeline = several && shared.join == v1::Tile::PIPE;
  // Cycles of computation, of first slices and of last results. The slowest operator of a pipeline has its first step
  // once.
  const auto serial = [&](const Share& share) {
    return share.compute + share.edges - (pipeline ? share.compute / skeleton->steps : 0);
  };
  const double edges = edgesLimit(shared, *skeleton, limit);
  if (edges < 0) return {};
  std::vector<Share> joined = {Share{}};
  for (size_t i = 0; i < skeleton->operators.size(); ++i) {
    const Front& front =
        frontsOf(shared.begin + static_cast<int>(i), !several)
            .front(skeleton->operators[i], level, {.cycles = limit.cycles / skeleton->steps, .edges = edges});
    if (stopped_()) return {};
    std::vector<Share> shares, next;
    for (const Partial& partial : front) {
      if (partial.startup + partial.tail > edges) continue;
      Share share;
      const double sent =
          (partial.out * all + skeleton->child_out[i]) / skeleton->instances / memory.read_bytes_per_cycle;
      const double received =
          (partial.in * all + skeleton->child_in[i]) / skeleton->instances / memory.write_bytes_per_cycle;
      share.cycles = std::max({partial.inner * skeleton->steps, sent, received});
      // Startup and tail of the operators that begin and end the phase; Seq has those of each. A reader waits for the
      // last results of the operator before it: under Seq and Shar in each step, in a pipeline in the first one.
      const bool first = i == 0, last = i + 1 == skeleton->operators.size();
      const bool hands_over = !last && readsResultOf(shared.begin + static_cast<int>(i));
      share.compute = (partial.compute + (exclusive || (overlaps && hands_over) ? partial.tail : 0)) * skeleton->steps;
      share.edges = (first || exclusive ? partial.startup : 0) + (last && !exclusive ? partial.tail : 0);
      // The first step of a pipeline passes through all operators.
      if (pipeline) share.edges += partial.compute + (hands_over ? partial.tail : 0);
      if (overlaps) {
        share.sent = sent;
        share.received = received;
      }
      if (share.cycles > limit.cycles || serial(share) > limit.cycles) continue;
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
        // Shar: an operator's transfers overlap with its siblings.
        sum.cycles = concurrent || overlaps ? std::max(left.cycles, right.cycles) : left.cycles + right.cycles;
        sum.compute = concurrent ? std::max(left.compute, right.compute) : left.compute + right.compute;
        sum.edges += right.edges;
        sum.sent += right.sent;
        sum.received += right.received;
        sum.cycles = std::max({sum.cycles, serial(sum), sum.sent, sum.received});
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
        if (sum.cycles > limit.cycles || (!fits && !restriction_.ignore_limits)) continue;
        sum.operators.push_back(right.operators.front());
        addShare(next, std::move(sum), figures_);
      }
    }
    joined = std::move(next);
  }
  std::vector<PhaseOption> options;
  for (Share& share : joined)
    options.push_back({.cost = total(shared, *skeleton,
                                     {.cycles = share.cycles,
                                      .energy = share.energy,
                                      .compute = share.compute,
                                      .edges = serial(share) - share.compute}),
                       .shared = 0,
                       .operators = std::move(share.operators)});
  return options;
}

}  // namespace tessera::compiler::dataflow_search
