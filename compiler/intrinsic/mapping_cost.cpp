#include "compiler/intrinsic/mapping_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/intrinsic/block_layout.h"
#include "compiler/target/hierarchy.h"
#include "compiler/target/validate_intrinsic.h"

namespace tessera::compiler::intrinsic {
namespace {

std::string homeOf(const v1::Intrinsic::Operand& operand) {
  return operand.memory().empty() ? kRegisters : operand.memory();
}

/// The part of a level that each unit executing the instruction gets.
Hierarchy::Share shareOf(const Hierarchy& chip, int level, const v1::Intrinsic& intrinsic) {
  return chip.shareOf(level, chip.unitOf(intrinsic));
}

/// Whether dimension `d` moves the blocks of an operand.
bool walks(const Placement& placement, const PhysicalMapping& mapping, size_t d) {
  const size_t iterations = mapping.groups.size();
  const std::vector<int>& which = d < iterations ? placement.order : placement.outer;
  const int wanted = d < iterations ? static_cast<int>(d) : mapping.outer[d - iterations];
  return std::find(which.begin(), which.end(), wanted) != which.end();
}

/// Memories through which statements of the instruction move an operand.
std::set<std::string> memoriesOf(const v1::Intrinsic& intrinsic, size_t operand, const v1::Target& target) {
  const Route route = routeOf(intrinsic, operand);
  std::set<std::string> names;
  for (const auto* stops : {&route.in, &route.out}) {
    for (const Stop& stop : *stops) {
      const bool any = stop.memory == kAnyMemory;
      names.insert(any ? target.memory(target.memory_size() - 1).name() : stop.memory);
    }
  }
  return names;
}

int64_t unitsOf(const v1::Intrinsic& intrinsic, const v1::Target& target) {
  const Hierarchy chip(target);
  const int unit = chip.unitOf(intrinsic);
  return unit < 0 ? 1 : chip.units()[static_cast<size_t>(unit)].instances;
}

/// Bytes per cycle of results from where they are summed: the smaller of `width` and the bandwidth of a bypassed
/// memory.
double narrowest(double width, const v1::Intrinsic& intrinsic, const v1::Target& target, const Hierarchy& chip) {
  for (const Stop& stop : routeOf(intrinsic, 0).out) {
    const int level = chip.levelNamed(stop.memory);
    if (level < 0 || !target.memory(level).peer_of_inner()) continue;
    const Hierarchy::Share share = shareOf(chip, level, intrinsic);
    const double passes = std::min(share.read_bytes_per_cycle, share.write_bytes_per_cycle);
    if (passes > 0) width = width > 0 ? std::min(width, passes) : passes;
  }
  return width;
}

/// The average time of a move: each part occurs in a share of all moves, and rarer parts occur together with the more
/// frequent ones.
double average(std::vector<std::pair<double, double>> parts, double least) {
  std::sort(parts.begin(), parts.end());
  double sum = 0, before = 0, all = 0;
  for (const auto& [share, cycles] : parts) all += cycles;
  for (const auto& [share, cycles] : parts) {
    sum += (share - before) * std::max(least, all);
    before = share;
    all -= cycles;
  }
  return sum + (1 - before) * least;
}

}  // namespace

std::vector<Stage> costLevelsOf(const v1::Intrinsic& intrinsic, const v1::Target& target) {
  Stage inner;
  std::set<std::string> homes;
  for (const auto& operand : intrinsic.operands()) {
    inner.memories.push_back(homeOf(operand));
    if (homes.insert(homeOf(operand)).second) {
      absl::StrAppend(&inner.name, inner.name.empty() ? "" : "+", homeOf(operand));
    }
  }
  const Hierarchy chip(target);
  const int64_t registers = int64_t{target.registers().vector_bits()} / 8 * target.registers().vector_count();
  for (const std::string& memory : inner.memories) {
    int64_t capacity = memory == kRegisters && registers > 0 ? registers : -1;
    const bool result = inner.capacities.empty();
    double width = 0;
    if (const int level = chip.levelNamed(memory); level >= 0) {
      const Hierarchy::Share share = shareOf(chip, level, intrinsic);
      const bool last = level + 1 == target.memory_size();
      const int64_t room = last ? target.memory(level).capacity_bytes() : share.capacity_bytes;
      if (room > 0) capacity = room;
      width = result ? share.read_bytes_per_cycle : share.write_bytes_per_cycle;
    }
    if (result) width = narrowest(width, intrinsic, target, chip);
    inner.capacities.push_back(capacity);
    inner.widths.push_back(width);
    inner.blocks.push_back(true);
  }
  std::vector<std::set<std::string>> passed;
  for (int operand = 0; operand < intrinsic.operands_size(); ++operand) {
    passed.push_back(memoriesOf(intrinsic, static_cast<size_t>(operand), target));
  }
  std::vector<Stage> stages = {inner};
  for (int l = 0; l < target.memory_size(); ++l) {
    const v1::MemoryLevel& level = target.memory(l);
    const bool last = l + 1 == target.memory_size();
    if (!last && (homes.contains(level.name()) || level.peer_of_inner())) continue;
    const Hierarchy::Share share = shareOf(chip, l, intrinsic);
    // This level's bandwidth is that of moves into the level inside of it.
    stages.back().in_bandwidth = share.read_bytes_per_cycle;
    stages.back().out_bandwidth = share.write_bytes_per_cycle;
    Stage stage;
    stage.name = level.name();
    stage.memories = {level.name()};
    stage.capacities = {level.capacity_bytes() > 0 && !last ? share.capacity_bytes : -1};
    stage.widths = {share.write_bytes_per_cycle};
    for (const std::set<std::string>& names : passed) stage.blocks.push_back(!last && names.contains(level.name()));
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<int64_t> dimensionsOf(const Nest& software, const PhysicalMapping& mapping) {
  std::vector<int64_t> extents;
  for (const Group& group : mapping.groups) extents.push_back(group.steps);
  for (int loop : mapping.outer) extents.push_back(software.loops[loop].extent);
  return extents;
}

struct MappingCostModel::Loop {
  size_t dimension = 0, level = 0;
  double trips = 1;  ///< for example 3.5 if the last of four tiles is half of one
  bool sum = false;
};

/// The loops outside of the innermost level, outermost first: for each level the parallel loops, then the reductions.
class MappingCostModel::Nesting {
 public:
  Nesting(const MappingCostModel& model, const Tiling& tiling)
      : last_(tiling.size() - 1), filled_(model.dimensions_.size()) {
    for (size_t d = 0; d < filled_.size(); ++d) filled_[d] = model.dimensions_[d].filled;
    for (size_t level = last_; level > 0; --level) {
      for (const bool sum : {false, true}) {
        for (size_t d = 0; d < filled_.size(); ++d) {
          if (model.dimensions_[d].sum != sum) continue;
          const double trips = static_cast<double>(tiling[level][d]) / static_cast<double>(tiling[level - 1][d]);
          loops_.push_back({d, level, trips, sum});
        }
      }
    }
    divide(static_cast<double>(model.units_));
  }

  const std::vector<Loop>& loops() const { return loops_; }
  size_t last() const { return last_; }
  /// Per dimension: the share of blocks that is not padding, for the busiest unit.
  const std::vector<double>& filled() const { return filled_; }
  /// Trips of a level for one unit, and trips of its parallel loops alone.
  double trips(size_t level) const { return level == last_ ? share_ * summed(level) : kept(level) * summed(level); }
  double share() const { return share_; }
  double summed(size_t level) const { return product(level, true); }

 private:
  double product(size_t level, bool sum) const {
    double trips = 1;
    for (const Loop& loop : loops_) trips *= loop.level == level && loop.sum == sum ? loop.trips : 1;
    return trips;
  }
  double kept(size_t level) const { return product(level, false); }

  /// Each unit has as many tiles as the first one, as long as there are any. The first unit has whole tiles, and no
  /// padding at the ends of dimensions that it does not reach.
  void divide(double units) {
    double tiles = 1, whole = kept(last_);
    for (const Loop& loop : loops_) tiles *= loop.level == last_ && !loop.sum ? std::ceil(loop.trips) : 1;
    // Tiles of the busiest unit, distributed in the order of the loops.
    double left = std::ceil(tiles / units), before = 1;
    share_ = 0;
    for (const Loop& loop : loops_) {
      if (loop.level != last_ || loop.sum || left <= 0) break;
      tiles /= std::ceil(loop.trips);
      whole /= loop.trips;
      const double rounds = std::floor(left / tiles);
      if (std::ceil(left / tiles) < std::ceil(loop.trips)) filled_[loop.dimension] = 1;
      share_ += before * std::min(rounds, loop.trips) * whole;
      left -= rounds * tiles;
      before *= std::min(1.0, loop.trips - rounds);
    }
  }

  size_t last_;
  std::vector<Loop> loops_;
  std::vector<double> filled_;
  double share_ = 1;
};

MappingCostModel::MappingCostModel(const Nest& software, const v1::Intrinsic& intrinsic, const PhysicalMapping& mapping,
                                   const v1::Target& target)
    : chip_(target.name()),
      stages_(costLevelsOf(intrinsic, target)),
      interval_(intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : intrinsic.latency_cycles()),
      latency_(intrinsic.latency_cycles()),
      units_(unitsOf(intrinsic, target)) {
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    const Group& group = mapping.groups[i];
    const double blocks = static_cast<double>(group.steps) * static_cast<double>(group.size);
    dimensions_.push_back({intrinsic.iterations(static_cast<int>(i)).reduction(), group.extent / blocks});
  }
  for (const int loop : mapping.outer) dimensions_.push_back({software.isReduction(loop), 1});
  for (const Placement& placement : mapping.operands) {
    Operand& operand = operands_.emplace_back();
    operand.block_bytes = static_cast<double>(placement.block_bytes);
    for (size_t d = 0; d < dimensions_.size(); ++d) operand.walks.push_back(walks(placement, mapping, d));
  }
}

double MappingCostModel::bytesOf(size_t operand, const std::vector<int64_t>& tile,
                                 const std::vector<double>& filled) const {
  double bytes = operands_[operand].block_bytes;
  for (size_t d = 0; d < tile.size(); ++d) {
    if (operands_[operand].walks[d]) bytes *= static_cast<double>(tile[d]) * filled[d];
  }
  return bytes;
}

/// Number of trips outside of `level` for which a source's tile is reused: consecutive ones, and in a cache also later
/// ones.
struct MappingCostModel::Stay {
  double trips = 1, returns = 1;
};

/// `tiles`: bytes of all operands' tiles. A tile counts as reused in a cache only if it is not evicted in between.
MappingCostModel::Stay MappingCostModel::stayOf(size_t operand, size_t level, const Nesting& nesting,
                                                std::vector<double> tiles) const {
  const bool cache = !stages_[level].blocks[operand];
  const double room = cache ? static_cast<double>(stages_[level].capacities[0]) : -1;
  Stay stay;
  double divided = 1;
  bool moved = false;
  for (size_t l = nesting.loops().size(); l-- > 0;) {
    const Loop& loop = nesting.loops()[l];
    if (loop.level <= level || loop.trips <= 1) continue;
    // No unit has more of these trips than its share.
    const bool shared = loop.level == nesting.last() && !loop.sum;
    const double trips = shared ? std::clamp(nesting.share() / divided, 1.0, loop.trips) : loop.trips;
    if (shared) divided *= trips;
    if (!operands_[operand].walks[loop.dimension]) {
      (moved ? stay.returns : stay.trips) *= trips;
    } else if (!cache) {
      break;
    } else {
      moved = true;
    }
    if (room < 0) continue;
    double passed = 0;
    for (size_t source = 1; source < tiles.size(); ++source) {
      if (operands_[source].walks[loop.dimension]) tiles[source] *= trips;
      passed += tiles[source];
    }
    // Data that passes through the cache meanwhile evicts the tile.
    if (passed > room) break;
  }
  return stay;
}

absl::StatusOr<Price> MappingCostModel::of(const Tiling& tiling) const {
  if (tiling.size() != stages_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tiling has ", tiling.size(), " levels, ", chip_, " has ", stages_.size()));
  }
  const Nesting nesting(*this, tiling);
  const std::vector<double> whole(dimensions_.size(), 1);
  double moved = 0;  // time of the moves into the next inner level, or of that level if it takes longer
  Price price;
  for (size_t l = 0; l < stages_.size(); ++l) {
    LevelCost level;
    level.name = stages_[l].name;
    const bool last = l + 1 == stages_.size();
    if (l == 0) {
      double kept = 1, summed = 1;
      for (size_t d = 0; d < dimensions_.size(); ++d) {
        (dimensions_[d].sum ? summed : kept) *= static_cast<double>(tiling[0][d]);
      }
      level.loops = kept * summed;
      // Independent results hide the latency of a call; the lower bound keeps costs positive.
      level.cycles = level.loops * std::max({interval_, latency_ / kept, 1e-3});
    } else {
      level.loops = nesting.trips(l);
      level.cycles = level.loops * moved;
    }
    double sums = 1;
    for (size_t outer = l + 1; outer < stages_.size(); ++outer) sums *= nesting.summed(outer);
    std::vector<double> tiles;
    for (size_t operand = 0; operand < operands_.size(); ++operand) {
      tiles.push_back(bytesOf(operand, tiling[l], nesting.filled()));
    }
    std::map<std::string, double> used, filled;  // bytes; cycles for writing the sources
    std::vector<std::pair<double, double>> parts;
    for (size_t operand = 0; operand < operands_.size(); ++operand) {
      const double blocks = bytesOf(operand, tiling[l], whole);
      const size_t memory = l == 0 ? operand : 0;
      const std::string& name = stages_[l].memories[memory];
      const auto in = [&](size_t at) { return stages_[at].blocks[operand] ? blocks : tiles[operand]; };
      used[name] += in(l);
      if (stages_[l].capacities[memory] >= 0 && used[name] > static_cast<double>(stages_[l].capacities[memory])) {
        return absl::FailedPreconditionError(absl::StrCat(name, " is too small"));
      }
      const Stay stay = last ? Stay{} : operand == 0 ? Stay{sums, 1} : stayOf(operand, l, nesting, tiles);
      const double times = stay.trips * stay.returns, bytes = in(last ? l : l + 1) / times;
      (operand == 0 ? level.out_bytes : level.in_bytes) += bytes;
      if (last) continue;
      // A tile that stays in a cache is moved in a share of the trips only, but then whole.
      if (operand > 0) parts.emplace_back(1 / stay.returns, bytes * stay.returns / stages_[l].in_bandwidth);
      if (stages_[l].widths[memory] <= 0) continue;
      double& cycles = operand == 0 ? level.out_cycles : filled[name];
      cycles += in(l) / times / stages_[l].widths[memory];
      if (operand > 0) level.in_cycles = std::max(level.in_cycles, cycles);
    }
    if (!last) {
      level.out_cycles = std::max(level.out_cycles, level.out_bytes / stages_[l].out_bandwidth);
      moved = average(std::move(parts), std::max({level.cycles, level.in_cycles, level.out_cycles}));
      level.in_cycles = std::max(level.in_cycles, level.in_bytes / stages_[l].in_bandwidth);
    }
    price.levels.push_back(std::move(level));
  }
  price.cycles = price.levels.back().cycles;
  return price;
}

}  // namespace tessera::compiler::intrinsic
