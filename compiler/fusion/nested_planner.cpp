#include "compiler/fusion/nested_planner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/fusion/ceil_div.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::fusion {
namespace {

/// Least relative gain of the slowest memory's seconds for which other blocks of the farthest memory are taken.
constexpr double kWorthwhile = 1e-3;

/// Splits a loop into two digits: over blocks of `tile`, in its place, and within a block, after all other loops. A
/// short last block counts as a whole one.
void splitLoop(Chain& chain, int at, int64_t tile) {
  const Loop loop = chain.loops[at];
  const auto inner = static_cast<int>(chain.loops.size());
  Loop within = loop;
  within.extent = tile;
  within.min_tile = std::min(loop.min_tile, tile);
  within.min_extent = 0;  // belongs to the whole loop
  chain.loops.push_back(std::move(within));
  chain.loops[at] = {.name = loop.name + "'", .extent = ceilDiv(loop.extent, tile)};
  for (Statement& member : chain.statements)
    if (std::ranges::count(member.loops, at) > 0) member.loops.push_back(inner);
  for (Access& tensor : chain.accesses)
    for (Subscript& subscript : tensor.subscripts)
      for (size_t term = 0, terms = subscript.terms.size(); term < terms; ++term) {
        if (subscript.terms[term].loop != at) continue;
        subscript.terms.push_back({inner, subscript.terms[term].coefficient});
        subscript.terms[term].coefficient *= tile;
      }
}

/// A chain within the blocks of enclosing levels: their loops run outside, in order, one block at a time.
class Within {
 public:
  explicit Within(const Chain& whole) : chain_(whole), inner_(whole.loops.size()) {
    std::iota(inner_.begin(), inner_.end(), 0);
  }

  /// Adds an enclosing loop, in blocks of `tile` iterations.
  void enter(int loop, int64_t tile) {
    const int walked = inner_[loop];
    if (tile >= chain_.loops[walked].extent) return;
    outside_.push_back(walked);
    inner_[loop] = static_cast<int>(chain_.loops.size());
    splitLoop(chain_, walked, tile);
  }

  /// Adds an enclosing level of blocks.
  void enter(const LevelBlocks& level) {
    for (const int loop : level.order) enter(loop, level.tiles[loop]);
  }

  /// Returns the best blocks for a memory, in terms of the whole chain's loops.
  absl::StatusOr<LevelBlocks> best(double capacity, const BlockOptions& options) const {
    BlockOptions own;
    own.intermediates = options.intermediates;
    own.outside = outside_;
    own.lower.assign(chain_.loops.size(), 1);
    own.upper.assign(chain_.loops.size(), 1);
    for (size_t loop = 0; loop < inner_.size(); ++loop) {
      const int64_t extent = chain_.loops[inner_[loop]].extent;
      own.lower[inner_[loop]] = options.lower.empty() ? 1 : std::min(options.lower[loop], extent);
      own.upper[inner_[loop]] = options.upper.empty() ? extent : std::min(options.upper[loop], extent);
    }
    TESSERA_ASSIGN_OR_RETURN(auto plan, planBlocks(chain_, capacity, own));
    LevelBlocks level;
    for (const int loop : plan.order) {
      const auto at = std::ranges::find(inner_, loop);
      if (at != inner_.end() && plan.tiles[loop] < chain_.loops[loop].extent)
        level.order.push_back(static_cast<int>(at - inner_.begin()));
    }
    for (const int loop : inner_) level.tiles.push_back(plan.tiles[loop]);
    return level;
  }

 private:
  Chain chain_;
  Order outside_;
  std::vector<int> inner_;  // per loop of the whole chain: its loop within the blocks
};

/// Returns the members as chains of one. Fails if a window slides over an intermediate, because such a member has a
/// loop that the chain does not have.
absl::StatusOr<std::vector<Chain>> membersOf(const Chain& chain) {
  std::vector<Chain> members = unfused(chain);
  for (const Chain& member : members)
    for (const Loop& loop : member.loops)
      if (chain.loopNamed(loop.name) < 0)
        return absl::InvalidArgumentError(absl::StrCat("'", member.name, "' has windows along ", loop.name,
                                                       " to be written: nested blocks know no halos"));
  return members;
}

/// Returns, per loop of a member, the value of the chain's loop of that name.
Tiles ofMember(const Chain& member, const Chain& chain, const Tiles& values) {
  Tiles own;
  for (const Loop& loop : member.loops)
    if (!values.empty()) own.push_back(values[chain.loopNamed(loop.name)]);
  return own;
}

BlockOptions optionsOf(const Chain& member, const Chain& chain, const BlockOptions& options) {
  BlockOptions own;
  own.lower = ofMember(member, chain, options.lower);
  own.upper = ofMember(member, chain, options.upper);
  return own;
}

Order orderOfMember(const Chain& member, const Chain& chain, const Order& order) {
  Order own;
  for (const int loop : order)
    if (const int at = member.loopNamed(chain.loops[loop].name); at >= 0) own.push_back(at);
  return own;
}

/// Plans with blocks for each memory alone.
struct Alone {
  double seconds = 0;  ///< of the slowest memory: a lower bound
  Tiles nearest;       ///< per loop of the chain: blocks of the nearest memory, from the first member that uses the
                       ///< loop
};

/// `far`: the plan of the farthest memory.
absl::StatusOr<Alone> planAlone(const Chain& chain, absl::Span<const BlockMemory> memories, const BlockPlan& far,
                                const BlockOptions& options) {
  Alone alone{far.movement.volume_bytes / memories[0].bytes_per_second, far.tiles};
  for (const BlockMemory& memory : memories.subspan(1)) {
    double bytes = 0;
    std::vector<bool> seen(chain.loops.size(), false);
    for (const Chain& member : unfused(chain)) {
      TESSERA_ASSIGN_OR_RETURN(auto plan, planBlocks(member, memory.capacity_bytes, optionsOf(member, chain, options)));
      bytes += plan.movement.volume_bytes;
      for (size_t loop = 0; loop < member.loops.size(); ++loop) {
        const int whole = chain.loopNamed(member.loops[loop].name);
        if (!seen[whole]) alone.nearest[whole] = plan.tiles[loop];
        seen[whole] = true;
      }
    }
    alone.seconds = std::max(alone.seconds, bytes / memory.bytes_per_second);
  }
  return alone;
}

/// Returns, per loop, the iterations of its innermost block.
Tiles innermost(const Chain& chain, absl::Span<const LoopStep> steps) {
  Tiles tiles;
  for (const Loop& loop : chain.loops) tiles.push_back(loop.extent);
  for (const LoopStep& step : steps) tiles[step.loop] = std::min(tiles[step.loop], step.tile);
  return tiles;
}

double heldBytes(const Chain& chain, absl::Span<const LoopStep> steps) {
  const Tiles tiles = innermost(chain, steps);
  double bytes = 0;
  for (size_t tensor = 0; tensor < chain.accesses.size(); ++tensor)
    bytes += static_cast<double>(footprint(chain, static_cast<int>(tensor), tiles) *
                                 elementBytes(chain.accesses[tensor].dtype));
  return bytes;
}

/// Returns the number of innermost blocks, each within the one before, that cover `extent` iterations.
int64_t blocksIn(int64_t extent, absl::Span<const int64_t> tiles) {
  if (tiles.empty() || extent == 0) return extent == 0 ? 0 : 1;
  const int64_t tile = std::min(extent, tiles[0]);
  return extent / tile * blocksIn(tile, tiles.subspan(1)) + blocksIn(extent % tile, tiles.subspan(1));
}

/// Algorithm 1 for a chain of one member: an operand's block is moved each time a loop replaces it. Those are the loops
/// that index it, and all loops outside the innermost of these. Short last blocks count with their real size;
/// overlapping windows count with the mean.
Movement movedBy(const Chain& chain, absl::Span<const LoopStep> steps) {
  Movement moved;
  const Tiles tiles = innermost(chain, steps);
  for (size_t at = 0; at < chain.accesses.size(); ++at) {
    const auto tensor = static_cast<int>(at);
    const auto bytes = static_cast<double>(elementBytes(chain.accesses[at].dtype));
    size_t replacing = steps.size();  // the steps before it replace the block
    while (replacing > 0 && !chain.uses(tensor, steps[replacing - 1].loop)) --replacing;
    std::vector<Tiles> cut(chain.loops.size());
    for (const LoopStep& step : steps.first(replacing)) cut[step.loop].push_back(step.tile);
    std::vector<double> mean;
    double elements = 1;
    for (size_t loop = 0; loop < chain.loops.size(); ++loop) {
      const auto blocks = static_cast<double>(blocksIn(chain.loops[loop].extent, cut[loop]));
      mean.push_back(static_cast<double>(chain.loops[loop].extent) / blocks);
      elements *= blocks;
    }
    for (const Subscript& subscript : chain.accesses[at].subscripts) {
      double size = 1;
      for (const Term& term : subscript.terms) size += static_cast<double>(term.coefficient) * (mean[term.loop] - 1);
      elements *= size;
    }
    moved.tensor_volume_bytes.push_back(elements * bytes);
    moved.tensor_footprint_bytes.push_back(static_cast<double>(footprint(chain, tensor, tiles)) * bytes);
    moved.volume_bytes += elements * bytes;
    moved.memory_bytes += moved.tensor_footprint_bytes.back();
  }
  return moved;
}

/// Returns variants of the blocks with slightly more or fewer blocks of one loop.
std::vector<Tiles> neighbours(const Chain& chain, const LevelBlocks& level) {
  std::vector<Tiles> found;
  for (const int at : level.order) {
    const Loop& loop = chain.loops[at];
    const int64_t blocks = ceilDiv(loop.extent, level.tiles[at]);
    // Doubling and halving cross plateaus that single steps do not leave.
    for (const int64_t other : {blocks / 2, blocks - 1, blocks + 1, 2 * blocks}) {
      if (other < 1) continue;
      Tiles tiles = level.tiles;
      tiles[at] = std::min(loop.extent, ceilDiv(ceilDiv(loop.extent, other), loop.multiple) * loop.multiple);
      if (tiles[at] >= loop.min_tile && tiles[at] != level.tiles[at]) found.push_back(std::move(tiles));
    }
  }
  return found;
}

}  // namespace

Movement movementInto(const Chain& chain, absl::Span<const LoopStep> steps, double capacity_bytes) {
  // The innermost loops whose block fits are taken whole; only the loops outside them move data.
  size_t outside = 0;
  while (outside < steps.size() && heldBytes(chain, steps.first(outside)) > capacity_bytes) ++outside;
  return movedBy(chain, steps.first(outside));
}

std::vector<LoopStep> stepsOf(absl::Span<const LevelBlocks> levels) {
  std::vector<LoopStep> steps;
  for (const LevelBlocks& level : levels)
    for (const int loop : level.order) steps.push_back({loop, level.tiles[loop]});
  return steps;
}

absl::StatusOr<NestedPlan> planWithin(const Chain& chain, absl::Span<const BlockMemory> memories, const Order& order,
                                      const Tiles& tiles, const BlockOptions& options) {
  NestedPlan plan;
  plan.far = {order, tiles, analyse(chain, order, tiles, options.intermediates)};
  std::vector<double> bytes(memories.size(), 0);
  bytes[0] = plan.far.movement.volume_bytes;
  // Each member runs in its own blocks within those of the farthest memory, level by level.
  TESSERA_ASSIGN_OR_RETURN(auto members, membersOf(chain));
  for (Chain& alone : members) {
    NestedMember member{std::move(alone), {}};
    const BlockOptions own = optionsOf(member.chain, chain, options);
    Within within(member.chain);
    const LevelBlocks outside{orderOfMember(member.chain, chain, order), ofMember(member.chain, chain, tiles), {}};
    within.enter(outside);
    std::vector<LoopStep> steps = stepsOf({outside});
    for (size_t memory = 1; memory < memories.size(); ++memory) {
      TESSERA_ASSIGN_OR_RETURN(auto level, within.best(memories[memory].capacity_bytes, own));
      within.enter(level);
      const std::vector<LoopStep> more = stepsOf({level});
      steps.insert(steps.end(), more.begin(), more.end());
      level.movement = movedBy(member.chain, steps);
      bytes[memory] += level.movement.volume_bytes;
      member.levels.push_back(std::move(level));
    }
    plan.members.push_back(std::move(member));
  }
  for (size_t memory = 0; memory < memories.size(); ++memory)
    plan.seconds.push_back(bytes[memory] / memories[memory].bytes_per_second);
  plan.slowest = std::ranges::max(plan.seconds);
  return plan;
}

namespace {

/// Moves from blocks of the farthest memory to neighbouring ones while that improves.
void improve(const Chain& chain, absl::Span<const BlockMemory> memories, const BlockOptions& options, double bound,
             NestedPlan& plan) {
  for (bool gained = true; gained && plan.slowest > bound * (1 + kWorthwhile);) {
    gained = false;
    for (const Tiles& tiles : neighbours(chain, plan.far)) {
      const Movement moved = analyse(chain, plan.far.order, tiles, options.intermediates);
      // Skips blocks whose far memory alone is already slower, before planning the nearer ones.
      if (moved.memory_bytes > memories[0].capacity_bytes ||
          moved.volume_bytes / memories[0].bytes_per_second >= plan.slowest)
        continue;
      auto other = planWithin(chain, memories, plan.far.order, tiles, options);
      if (!other.ok() || other->slowest >= plan.slowest * (1 - kWorthwhile)) continue;
      plan = *std::move(other);
      gained = true;
      break;
    }
  }
}

}  // namespace

absl::StatusOr<NestedPlan> planNested(const Chain& chain, absl::Span<const BlockMemory> memories,
                                      const BlockOptions& options) {
  if (memories.empty()) return absl::InvalidArgumentError("blocks are for one memory at least, none is given");
  const double capacity = memories[0].capacity_bytes;
  TESSERA_ASSIGN_OR_RETURN(auto far, planBlocks(chain, capacity, options));
  auto plan = planWithin(chain, memories, far.order, far.tiles, options);
  if (!plan.ok()) return plan.status();
  TESSERA_ASSIGN_OR_RETURN(auto alone, planAlone(chain, memories, far, options));
  const double bound = alone.seconds;
  // If a nearer memory is the slowest, another outer order, or outer blocks that are multiples of the nearest memory's
  // best blocks, may reduce its traffic.
  Chain whole_blocks = chain;
  for (size_t loop = 0; loop < chain.loops.size(); ++loop) whole_blocks.loops[loop].multiple = alone.nearest[loop];
  // Stops early once the plan is as good as the lower bound.
  for (const Chain* outside : {&chain, &std::as_const(whole_blocks)}) {
    Order order = orderedLoops(chain);
    do {
      if (plan->slowest <= bound * (1 + kWorthwhile)) break;
      const auto start = planBlocksFor(*outside, order, capacity, options);
      if (!start.ok()) continue;
      auto other = planWithin(chain, memories, order, start->tiles, options);
      if (!other.ok()) continue;
      improve(chain, memories, options, bound, *other);
      if (other->slowest < plan->slowest * (1 - kWorthwhile)) plan = std::move(other);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  plan->bound = bound;
  return plan;
}

}  // namespace tessera::compiler::fusion
