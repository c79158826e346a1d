#include "compiler/backends/spatial/vector_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/spatial/tile_tree.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// Distinct elements, or an upper bound, of an access while the loops walk `extents`.
double elementsOf(const SpatialAccess& access, const std::vector<int64_t>& extents) {
  double box = 1, points = 1;
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    const loopnest::Subscript& subscript = access.subscripts[d];
    if (access.strides[d] == 0) continue;
    const loopnest::Range range = loopnest::rangeOf(subscript, extents);
    int64_t step = 0;
    for (const loopnest::Term& term : subscript.terms) step = std::gcd(step, term.coefficient);
    if (!subscript.digits.empty() || step == 0) step = 1;
    box *=
        std::floor((static_cast<double>(range.high) - static_cast<double>(range.low)) / static_cast<double>(step)) + 1;
  }
  for (size_t l = 0; l < extents.size(); ++l)
    if (access.position.uses(static_cast<int>(l))) points *= static_cast<double>(extents[l]);
  return std::min(box, points);
}

/// The loops over tiles, outermost first: those that units share, then the others. Loops of one tile are left out.
struct TileLoops {
  std::vector<int> order;
  size_t shared = 0;
};
TileLoops tileLoopsOf(const VectorPlan& plan, const SpatialNest& nest, const std::vector<bool>& parallel) {
  TileLoops loops;
  for (const bool shared : {true, false}) {
    for (size_t l = 0; l < nest.loops.size(); ++l)
      if (parallel[l] == shared && plan.tile[l] < nest.loops[l].extent) loops.order.push_back(static_cast<int>(l));
    if (shared) loops.shared = loops.order.size();
  }
  return loops;
}

double tripsOf(const VectorPlan& plan, const SpatialNest& nest, int loop) {
  const auto l = static_cast<size_t>(loop);
  const int64_t trips = (nest.loops[l].extent - 1) / plan.tile[l] + 1;
  return static_cast<double>(trips);
}

int64_t byteCount(double elements, v1::DataType type) {
  return static_cast<int64_t>(std::min(elements * static_cast<double>(elementBytes(type)), 1e18));
}

/// Sizes and numbers of copies of a nest's operands, for one nest and unit.
class Coster {
 public:
  Coster(const SpatialNest& nest, const VectorUnit& unit, const PointCost& point)
      : nest_(nest), unit_(unit), point_(point), parallel_(parallelLoopsOf(nest)) {}

  const std::vector<bool>& parallel() const { return parallel_; }

  /// Bytes of one tile of all operands.
  double tileBytes(const std::vector<int64_t>& tile) const {
    double bytes = 0;
    for (const SpatialAccess& access : nest_.accesses)
      bytes += elementsOf(access, tile) * static_cast<double>(elementBytes(access.dtype));
    double points = 1;
    for (const int64_t extent : tile) points *= static_cast<double>(extent);
    for (const SpatialOperation& operation : nest_.body)
      if (operation.name == "load") bytes += points * static_cast<double>(elementBytes(operation.dtype));
    return bytes;
  }

  /// Bytes that a tile may have so that two of them fit; negative: any number.
  double room() const {
    const int64_t capacity = unit_.levels.front().capacity;
    return unit_.levels.size() < 2 || capacity < 0 ? -1 : static_cast<double>(capacity) / 2;
  }

  VectorCost cost(const VectorPlan& plan, const WarmTensors& warm = {}) const {
    const TileLoops loops = tileLoopsOf(plan, nest_, parallel_);
    const size_t last = unit_.levels.size() - 1;
    VectorCost cost;
    for (const UnitLevel& level : unit_.levels) cost.levels.push_back({.name = level.name});
    double tasks = 1, tiles = 1;
    for (size_t i = 0; i < loops.order.size(); ++i) {
      tiles *= tripsOf(plan, nest_, loops.order[i]);
      if (i < loops.shared) tasks = tiles;
    }
    // The busiest instance's part of everything.
    const double each = std::ceil(tasks / static_cast<double>(unit_.instances)), part = each / tasks;
    const double active = std::ceil(tasks / each);
    const double points = nest_.points();
    cost.operations = points * point_.operations;
    cost.energy_pj = points * point_.energy_pj;
    cost.unit_cycles = points * point_.cycles * part;
    if (last == 0) {
      cost.cycles = cost.unit_cycles;
      return cost;
    }
    double in = 0, out = 0;
    for (size_t a = 0; a < nest_.accesses.size(); ++a) {
      const SpatialAccess& access = nest_.accesses[a];
      const bool output = a < static_cast<size_t>(nest_.outputs);
      const double once = elementsOf(access, nest_.extents());
      const double moved = copied(access, plan, loops, active);
      if (!output || nest_.reads(static_cast<int>(a)))
        in += read(moved, once, access.dtype, part, homeOf(a, warm), cost);
      if (output) out += write(moved, access.dtype, part, levelNamed(warm.level), cost);
    }
    for (const SpatialOperation& operation : nest_.body)
      if (operation.name == "load") in += read(points, points, operation.dtype, part, last, cost);
    cost.levels.front().peak_bytes = static_cast<int64_t>(tileBytes(plan.tile) * (tiles > 1 ? 2 : 1));
    const double steps = std::max(1.0, std::ceil(tiles * part)), longest = std::max({in, out, cost.unit_cycles});
    // The first tile's input and the last one's output overlap nothing.
    cost.cycles = longest * (steps - 1) / steps + (in + out + cost.unit_cycles) / steps;
    for (size_t l = 0; l < cost.levels.size(); ++l) {
      VectorCost::Level& level = cost.levels[l];
      level.energy_pj = static_cast<double>(level.read_bytes) * unit_.levels[l].read_pj +
                        static_cast<double>(level.written_bytes) * unit_.levels[l].write_pj;
      cost.energy_pj += level.energy_pj;
    }
    return cost;
  }

 private:
  /// Elements that copies of an operand's tiles move: as many copies as the loops down to the innermost one that moves
  /// it have trips, at least one for each active instance.
  double copied(const SpatialAccess& access, const VectorPlan& plan, const TileLoops& loops, double active) const {
    double trips = 1, copies = 1, cut = 1;
    for (size_t i = 0; i < loops.order.size(); ++i) {
      const int loop = loops.order[i];
      trips *= tripsOf(plan, nest_, loop);
      if (!access.position.uses(loop)) continue;
      copies = trips;
      // The last tile of a loop is smaller.
      const auto l = static_cast<size_t>(loop);
      cut *=
          static_cast<double>(nest_.loops[l].extent) / (tripsOf(plan, nest_, loop) * static_cast<double>(plan.tile[l]));
    }
    return std::max(copies, active) * elementsOf(access, plan.tile) * cut;
  }

  /// The level that holds an operand when the nest starts.
  size_t homeOf(size_t access, const WarmTensors& warm) const {
    const size_t last = unit_.levels.size() - 1;
    if (access >= warm.tensors.size() || !warm.tensors[access]) return last;
    return levelNamed(warm.level);
  }

  /// The position of a cache; the last level if it is none of the unit's.
  size_t levelNamed(const std::string& name) const {
    const size_t last = unit_.levels.size() - 1;
    const auto found = std::ranges::find(unit_.levels, name, &UnitLevel::name);
    const auto level = static_cast<size_t>(found - unit_.levels.begin());
    return level > 0 && level < last ? level : last;
  }

  /// Cycles of the busiest instance. The nearest level that can hold the operand serves what is read again.
  double read(double moved, double once, v1::DataType type, double part, size_t home, VectorCost& cost) const {
    once = std::min(once, moved);
    size_t source = home;
    for (size_t l = home; l-- > 1;)
      if (unit_.levels[l].capacity < 0 || byteCount(once, type) <= unit_.levels[l].capacity) source = l;
    const int64_t all = byteCount(moved, type), first = source == home ? all : byteCount(once, type);
    cost.levels[home].read_bytes += first;
    cost.levels[source].read_bytes += all - first;
    cost.levels[0].written_bytes += all;
    const double from = time(static_cast<double>(first), unit_.levels[home].read) +
                        time(static_cast<double>(all - first), unit_.levels[source].read);
    return part * std::max(from, time(static_cast<double>(all), unit_.levels[0].write));
  }

  /// What is stored stays in the shared cache, too.
  double write(double moved, v1::DataType type, double part, size_t shared, VectorCost& cost) const {
    const size_t last = unit_.levels.size() - 1;
    const int64_t all = byteCount(moved, type);
    cost.levels[0].read_bytes += all;
    cost.levels[last].written_bytes += all;
    const auto bytes = static_cast<double>(all);
    double longest = std::max(time(bytes, unit_.levels[0].read), time(bytes, unit_.levels[last].write));
    if (shared < last) {
      cost.levels[shared].written_bytes += all;
      longest = std::max(longest, time(bytes, unit_.levels[shared].write));
    }
    return part * longest;
  }

  static double time(double bytes, double bandwidth) { return bandwidth > 0 ? bytes / bandwidth : 0; }

  const SpatialNest& nest_;
  const VectorUnit& unit_;
  const PointCost& point_;
  const std::vector<bool> parallel_;
};

/// The largest tile of at most `room` bytes, filled from the innermost loop outwards, that leaves work for all units.
std::vector<int64_t> tileWithin(const SpatialNest& nest, const VectorUnit& unit, const Coster& coster, double room) {
  std::vector<int64_t> tile(nest.loops.size(), 1);
  for (size_t l = nest.loops.size(); l-- > 0;) {
    int64_t low = 1, high = nest.loops[l].extent;
    while (low < high) {
      tile[l] = low + (high - low + 1) / 2;
      if (room < 0 || coster.tileBytes(tile) <= room) {
        low = tile[l];
      } else {
        high = tile[l] - 1;
      }
    }
    tile[l] = low;
    if (low < nest.loops[l].extent) break;
  }
  const std::vector<bool>& parallel = coster.parallel();
  const auto lanes = static_cast<double>(std::max(1, unit.unit->lanes()));
  while (true) {
    double tasks = 1, points = 1;
    int widest = -1;
    for (size_t l = 0; l < tile.size(); ++l) {
      if (!parallel[l]) continue;
      const int64_t trips = (nest.loops[l].extent - 1) / tile[l] + 1;
      tasks *= static_cast<double>(trips);
      points *= static_cast<double>(tile[l]);
      if (tile[l] > 1 && widest < 0) widest = static_cast<int>(l);
    }
    if (widest < 0 || tasks >= static_cast<double>(unit.instances) || points <= lanes) return tile;
    int64_t& halved = tile[static_cast<size_t>(widest)];
    halved = (halved + 1) / 2;
  }
}

absl::Status tooSmall(const SpatialNest& nest, const VectorUnit& unit, double bytes) {
  return absl::FailedPreconditionError(absl::StrCat(nest.name, ": ", unit.levels.front().name, " has ",
                                                    unit.levels.front().capacity, " bytes for ", unit.unit->name(),
                                                    ", two tiles have ", 2 * bytes));
}

}  // namespace

absl::StatusOr<VectorPlan> planVector(const SpatialNest& nest, const v1::Target& target) {
  const std::vector<VectorUnit> units = elementUnitsOf(target);
  absl::Status refused = absl::FailedPreconditionError(absl::StrCat(
      nest.name, ": ", target.name(),
      " describes no unit that computes element by element: a unit with rates, or with lanes and no instruction"));
  VectorPlan best;
  double fewest = 0;
  for (const VectorUnit& unit : units) {
    std::string missing;
    const std::optional<PointCost> point = pointCostOf(nest, *unit.unit, missing);
    if (!point) {
      refused = absl::FailedPreconditionError(absl::StrCat(nest.name, ": ", target.name(), " describes no rate of ",
                                                           missing, " for its unit ", unit.unit->name()));
      continue;
    }
    const Coster coster(nest, unit, *point);
    // Large tiles are read less often, small ones overlap more.
    for (const double share : {1.0, 0.25, 0.0625}) {
      const double room = coster.room();
      VectorPlan plan{unit.unit->name(), tileWithin(nest, unit, coster, room < 0 ? room : room * share)};
      if (room >= 0 && coster.tileBytes(plan.tile) > room) {
        refused = tooSmall(nest, unit, coster.tileBytes(plan.tile));
        break;
      }
      const double cycles = coster.cost(plan).cycles;
      if (!best.unit.empty() && cycles >= fewest) continue;
      fewest = cycles;
      best = std::move(plan);
    }
  }
  if (best.unit.empty()) return refused;
  return best;
}

absl::StatusOr<VectorCost> costOf(const VectorPlan& plan, const SpatialNest& nest, const v1::Target& target,
                                  const WarmTensors& warm) {
  for (const VectorUnit& unit : elementUnitsOf(target)) {
    if (unit.unit->name() != plan.unit) continue;
    std::string missing;
    const std::optional<PointCost> point = pointCostOf(nest, *unit.unit, missing);
    if (!point) {
      return absl::FailedPreconditionError(
          absl::StrCat(nest.name, ": ", target.name(), " describes no rate of ", missing, " for its unit ", plan.unit));
    }
    const Coster coster(nest, unit, *point);
    const double bytes = coster.tileBytes(plan.tile);
    if (coster.room() >= 0 && bytes > coster.room()) return tooSmall(nest, unit, bytes);
    return coster.cost(plan, warm);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(nest.name, ": ", target.name(), " has no vector unit '", plan.unit, "'"));
}

v1::Tile treeOf(const VectorPlan& plan, const SpatialNest& nest, int number, const v1::Target& target) {
  const std::vector<VectorUnit> units = elementUnitsOf(target);
  const auto unit = std::ranges::find_if(units, [&](const VectorUnit& each) { return each.unit->name() == plan.unit; });
  v1::Tile tree;
  if (unit == units.end()) return tree;
  tree.set_level(unit->levels.back().name);
  const TileLoops loops = tileLoopsOf(plan, nest, parallelLoopsOf(nest));
  for (size_t i = 0; i < loops.order.size(); ++i) {
    const auto l = static_cast<size_t>(loops.order[i]);
    v1::Loop* loop = tree.add_loops();
    loop->set_dimension(nest.loops[l].name);
    loop->set_step(plan.tile[l]);
    if (i < loops.shared) loop->set_unit(plan.unit);
  }
  tree.set_join(v1::Tile::SEQ);
  *tree.add_children() = vectorLeaf(unit->levels.front().name, plan.unit, std::max(1, unit->unit->lanes()), number);
  return tree;
}

absl::StatusOr<VectorPlan> vectorPlanOf(const v1::Tile& tree, const SpatialNest& nest, int number,
                                        const std::string& path, const v1::Target& target) {
  VectorPlan plan;
  if (tree.children_size() == 1) plan.unit = tree.children(0).kernel().instruction();
  const std::vector<VectorUnit> units = elementUnitsOf(target);
  if (!std::ranges::any_of(units, [&](const VectorUnit& each) { return each.unit->name() == plan.unit; })) {
    return scheduleFault(
        tree.children_size() == 1 ? childPath(path, 0) : path, "no vector unit of " + target.name(),
        "'" + plan.unit + "'",
        absl::StrJoin(units, ", ", [](std::string* out, const VectorUnit& each) { *out += each.unit->name(); }));
  }
  for (const loopnest::Loop& loop : nest.loops) plan.tile.push_back(loop.extent);
  for (const v1::Loop& loop : tree.loops()) {
    const auto found = std::ranges::find(nest.loops, loop.dimension(), &loopnest::Loop::name);
    if (found == nest.loops.end() || loop.step() < 1 || loop.step() >= found->extent) {
      return scheduleFault(path, "no loop over tiles of the nest", absl::StrCat(loop.dimension(), "/", loop.step()),
                           "a loop of the nest, once, with steps from 1 to below its extent");
    }
    plan.tile[static_cast<size_t>(found - nest.loops.begin())] = loop.step();
  }
  TESSERA_RETURN_IF_ERROR(sameTree(tree, treeOf(plan, nest, number, target), path));
  return plan;
}

}  // namespace tessera::compiler::simulator
