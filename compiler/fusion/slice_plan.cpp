#include "compiler/fusion/slice_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <ranges>

#include "absl/strings/str_cat.h"
#include "compiler/cost/load_balance.h"
#include "compiler/cost/padding_overhead.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/halo.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::fusion {
namespace {

/// Bounds the search: sizes tried for one loop.
constexpr size_t kMaxSizes = 24;
/// Likewise for the parts that one core gets.
constexpr int64_t kMaxRounds = 4;
/// Limits the search, not a price: tensors with less than this fraction of a chain's bytes do not decide how it is cut.
constexpr double kSmallShare = 0.05;

/// Returns one block per loop.
Tiles wholeTiles(const Chain& chain) {
  Tiles whole;
  for (const Loop& loop : chain.loops) whole.push_back(loop.extent);
  return whole;
}

double bytesOf(const Chain& chain, int tensor, const Tiles& tiles) {
  return static_cast<double>(footprint(chain, tensor, tiles) * elementBytes(chain.accesses[tensor].dtype));
}

/// Returns even splits of a loop, largest first.
std::vector<int64_t> sizesOf(const Loop& loop) {
  const int64_t least = std::min(loop.extent, std::max(loop.min_tile, loop.multiple));
  std::vector<int64_t> sizes;
  for (int64_t blocks = 1; blocks <= loop.extent; ++blocks) {
    int64_t size = ceilDiv(loop.extent, blocks);
    if (size < loop.extent) size = std::min(loop.extent, ceilDiv(size, loop.multiple) * loop.multiple);
    if (size < least) break;
    if (sizes.empty() || size < sizes.back()) sizes.push_back(size);
  }
  if (sizes.empty() || sizes.back() > least) sizes.push_back(least);
  while (sizes.size() > kMaxSizes) {
    // Removes the size with the smallest ratio between its neighbours: small sizes are close together.
    size_t gone = 1;
    for (size_t i = 1; i + 1 < sizes.size(); ++i)
      if (sizes[i - 1] * sizes[gone + 1] < sizes[gone - 1] * sizes[i + 1]) gone = i;
    sizes.erase(sizes.begin() + static_cast<int64_t>(gone));
  }
  return sizes;
}

/// Returns the smallest block of a loop, or the next larger size that divides it evenly.
int64_t smallestOf(const Loop& loop) {
  const int64_t least = std::min(loop.extent, std::max(loop.min_tile, loop.multiple));
  const int64_t even = ceilDiv(loop.extent, loop.extent / least);
  return even % loop.multiple == 0 ? even : least;
}

/// Returns the points of the first `slices` slices of the loops in `order`, outermost first; last slices may be
/// smaller.
double pointsBefore(const Chain& chain, const Tiles& tiles, const Order& order, int64_t slices) {
  int64_t below = 1;
  double points = 0, inside = 1;  // slices and points of a block of the current loop
  for (int loop : order) {
    below *= ceilDiv(chain.loops[loop].extent, tiles[loop]);
    inside *= static_cast<double>(chain.loops[loop].extent);
  }
  if (slices >= below) return inside;
  double outer = 1;  // fraction of the outer loops that the current block is
  for (int loop : order) {
    const int64_t extent = chain.loops[loop].extent;
    below /= ceilDiv(extent, tiles[loop]);
    inside /= static_cast<double>(extent);
    const int64_t at = slices / below * tiles[loop];
    points += outer * static_cast<double>(at) * inside;
    outer *= static_cast<double>(std::min(tiles[loop], extent - at));
    slices %= below;
  }
  return points;
}

/// Returns the work of the busiest core over the average if each gets an equal number of neighbouring slices.
double coreImbalance(const Chain& chain, const SlicePlan& plan, int cores) {
  Order distributed = plan.order;
  if (plan.blocks > 1) distributed.pop_back();  // a core runs all blocks of a slice
  Tiles tiles = plan.tiles;
  int64_t points = plan.slices;
  if (plan.sequence_length > 1) {  // and all slices of a sequence
    const int loop = distributed.back();
    points /= ceilDiv(chain.loops[loop].extent, tiles[loop]);
    tiles[loop] = std::min(chain.loops[loop].extent, tiles[loop] * plan.sequence_length);
    points *= ceilDiv(chain.loops[loop].extent, tiles[loop]);
  }
  return loadImbalance(points, cores, [&](int64_t before) { return pointsBefore(chain, tiles, distributed, before); });
}

class Slicer {
 public:
  Slicer(const Chain& chain, const std::vector<int>& cut, const Chip& chip, size_t level, const SliceNeeds& needs)
      : chain_(chain),
        cut_(cut),
        chip_(chip),
        needs_(needs),
        parameters_(chip.costParameters().memory()),
        capacity_(static_cast<double>(chip.residentBytes(chip.level(level)))),
        into_(chip.bytesPerSecond(chip.level(level + 1))),
        out_(chip.bytesPerSecond(chip.level(level))),
        nest_seconds_(chip.seconds(chip.costParameters().overheads().nest_cycles())) {
    std::ranges::copy_if(cut, std::back_inserter(separating_), [&](int loop) { return isSeparating(chain, loop); });
  }

  /// Returns the plan of `tiles`, with its predicted seconds; nothing if a slice does not fit. `length`: slices along
  /// the innermost loop that run in sequence; 1: every slice computes its halos.
  std::optional<SlicePlan> price(const Tiles& tiles, int64_t length) const {
    SlicePlan plan;
    plan.tiles = tiles;
    plan.sequence_length = length;
    // The cut loops that have several blocks make the slices.
    for (int loop : cut_) {
      if (tiles[loop] >= chain_.loops[loop].extent) continue;
      plan.order.push_back(loop);
      plan.slices *= ceilDiv(chain_.loops[loop].extent, tiles[loop]);
    }
    const int running = needs_.softmax_loop;
    if (running >= 0 && tiles[running] < chain_.loops[running].extent) {
      plan.blocks = ceilDiv(chain_.loops[running].extent, tiles[running]);
      plan.order.push_back(running);
    }
    // Prefers everything resident; otherwise streams common operands.
    std::vector<double> volumes = resident(tiles, plan);
    if (volumes.empty()) volumes = streamed(tiles, plan);
    if (volumes.empty()) return std::nullopt;
    // Each member takes the longer of its arithmetic and its transfers.
    for (size_t m = 0; m < chain_.statements.size(); ++m) {
      Chain member = chain_;
      member.statements = {chain_.statements[m]};
      const double flops =
          length > 1 ? flopsInSequences(member, tiles, plan.order.back(), sequencesOf(plan)) : flopsOf(member, tiles);
      plan.flops += flops;
      plan.volume_bytes += volumes[m];
      // Volumes count writes once.
      const int output = chain_.statements[m].output;
      const double written = chain_.isIntermediate(output) ? 0
                                                           : (parameters_.transfers_per_written_line() - 1) *
                                                                 bytesOf(chain_, output, wholeTiles(chain_));
      plan.seconds +=
          elapsed(flops / chip_.operationsPerSecond(), (volumes[m] + written) / into_,
                  plan.prefetches_next ? parameters_.exposed_prefetched_share() : parameters_.exposed_share());
    }
    // Fixed costs per slice and block.
    const auto runs = static_cast<double>(plan.slices * plan.blocks);
    plan.seconds += nest_seconds_ * runs * static_cast<double>(chain_.statements.size());
    if (plan.blocks > 1) plan.seconds += runs * blockSeconds(tiles);
    if (length > 1) plan.seconds += moveSeconds(plan);
    if (std::ranges::any_of(separating_, [&](int loop) { return tiles[loop] > 1; }))
      plan.seconds += needs_.row_bytes / out_;
    // The busiest core decides, and runs of smaller sizes compute whole slices or sequences.
    plan.imbalance = coreImbalance(chain_, plan, chip_.cores());
    plan.seconds *= plan.imbalance;
    for (const int at : cut_) {
      const Loop& loop = chain_.loops[at];
      const int64_t distributed =
          length > 1 && at == plan.order.back() ? std::min(loop.extent, tiles[at] * length) : tiles[at];
      if (loop.min_extent > 0) plan.seconds *= paddingOverhead(distributed, loop.min_extent, loop.extent);
    }
    return plan;
  }

  /// Returns the sequence lengths to try along the innermost loop of `plan`, from all slices in one sequence downward.
  std::vector<int64_t> sequenceLengthsToTry(const SlicePlan& plan) const {
    if (plan.order.empty() || plan.blocks > 1 || !overlaps(chain_, plan.tiles, plan.order.back())) return {};
    // Halos along two loops would need too many kinds of slices: the first of a sequence and a later one, for each of
    // the two loops.
    for (size_t outer = 0; outer + 1 < plan.order.size(); ++outer)
      if (overlaps(chain_, plan.tiles, plan.order[outer])) return {};
    // Tries powers of two, and numbers that give every core a whole number of sequences.
    const int64_t along = slicesAlong(plan), around = plan.slices / along;
    std::vector<int64_t> sizes;
    auto consider = [&](int64_t sequences) {
      const int64_t size = ceilDiv(along, std::clamp<int64_t>(sequences, 1, along));
      if (size > 1 && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
    };
    for (int64_t count = 1; count < along; count *= 2) consider(count);
    for (int64_t rounds = 1; rounds <= kMaxRounds; ++rounds) consider(ceilDiv(rounds * chip_.cores(), around));
    return sizes;
  }

 private:
  int64_t slicesAlong(const SlicePlan& plan) const {
    return ceilDiv(chain_.loops[plan.order.back()].extent, plan.tiles[plan.order.back()]);
  }
  int64_t sequencesOf(const SlicePlan& plan) const { return ceilDiv(slicesAlong(plan), plan.sequence_length); }

  /// Returns the seconds to move kept halos to where the next slice expects them: a read and a write.
  double moveSeconds(const SlicePlan& plan) const {
    const double later_slices = static_cast<double>(plan.slices) * (1 - 1.0 * static_cast<double>(sequencesOf(plan)) /
                                                                            static_cast<double>(slicesAlong(plan)));
    double seconds = 0;
    for (int tensor = 0; tensor < static_cast<int>(chain_.accesses.size()); ++tensor) {
      const bool held =
          chain_.isIntermediate(tensor) || std::ranges::find(needs_.copied, tensor) != needs_.copied.end();
      const int64_t points = held ? haloElements(chain_, tensor, plan.tiles, plan.order.back()) : 0;
      if (points == 0) continue;
      seconds += nest_seconds_ + 2 * static_cast<double>(points * elementBytes(chain_.accesses[tensor].dtype)) / out_;
    }
    return later_slices * seconds;
  }

  /// Returns the seconds of a block of an online softmax in addition to its part of the members: it rescales the
  /// partial result.
  double blockSeconds(const Tiles& tiles) const {
    const double bytes = bytesOf(chain_, chain_.statements.back().output, tiles);
    const double flops =
        2 * bytes / static_cast<double>(elementBytes(chain_.accesses[chain_.statements.back().output].dtype));
    return kOnlineSoftmaxNests * nest_seconds_ + 2 * bytes / out_ + flops / chip_.operationsPerSecond();
  }

  /// Whether a slice's part of a tensor is one contiguous block: single points of the dimensions outside the cut one,
  /// all of those inside.
  bool isBlock(int tensor, const Tiles& tiles) const {
    const Tiles whole = wholeTiles(chain_);
    auto sizeOf = [&](const Subscript& subscript, const Tiles& of) {
      int64_t size = 1;
      for (const Term& term : subscript.terms) size += term.coefficient * (of[term.loop] - 1);
      return size;
    };
    bool outside = false;  // of a dimension that is cut
    for (const Subscript& subscript : chain_.accesses[tensor].subscripts | std::views::reverse) {
      const int64_t size = sizeOf(subscript, tiles);
      if (outside && size > 1) return false;
      outside |= size < sizeOf(subscript, whole);
    }
    return true;
  }

  std::vector<int> tensorsOf(const Statement& member) const {
    std::vector<int> tensors = member.inputs;
    tensors.push_back(member.output);
    return tensors;
  }

  /// Everything that a slice touches fits, so each tensor moves as often as its slice changes.
  std::vector<double> resident(const Tiles& tiles, SlicePlan& plan) const {
    plan.held_bytes = 0;
    double others = 0;
    bool blocks = true;
    for (size_t t = 0; t < chain_.accesses.size(); ++t) {
      const double bytes = bytesOf(chain_, static_cast<int>(t), tiles);
      plan.held_bytes += bytes;
      if (chain_.isIntermediate(static_cast<int>(t))) continue;
      others += bytes;
      blocks &= isBlock(static_cast<int>(t), tiles);
    }
    for (int tensor : needs_.copied) plan.held_bytes += bytesOf(chain_, tensor, tiles);
    if (plan.held_bytes > capacity_) return {};
    // If the next slice's operands fit as well and are contiguous, they can be loaded ahead.
    plan.prefetches_next = plan.slices > 1 && blocks && plan.held_bytes + others <= capacity_;
    const Structure structure(chain_, plan.order, IntermediateExtent::kBlock);
    std::vector<double> volumes;
    for (const Statement& member : chain_.statements) {
      double moved = 0;
      for (int tensor : tensorsOf(member)) {
        if (chain_.isIntermediate(tensor)) continue;
        const auto traffic = std::ranges::find(structure.traffic, tensor, &Traffic::tensor);
        moved += traffic == structure.traffic.end() ? bytesOf(chain_, tensor, tiles) : structure.moved(*traffic, tiles);
      }
      volumes.push_back(moved);
    }
    return volumes;
  }

  /// Only the slice's own data stays; operands common to all slices of the innermost loop are streamed.
  std::vector<double> streamed(const Tiles& tiles, SlicePlan& plan) const {
    if (plan.order.empty() || plan.blocks > 1) return {};
    const int innermost = plan.order.back();
    plan.constants_stay = false;
    plan.held_bytes = 0;
    for (size_t t = 0; t < chain_.accesses.size(); ++t)
      if (chain_.uses(static_cast<int>(t), innermost)) plan.held_bytes += bytesOf(chain_, static_cast<int>(t), tiles);
    // Part of the capacity is left to the streamed operands.
    if (plan.held_bytes > (1 - parameters_.streamed_share()) * capacity_) return {};
    std::vector<double> volumes;
    for (const Statement& member : chain_.statements) {
      double moved = 0;
      for (int tensor : tensorsOf(member))
        if (!chain_.isIntermediate(tensor)) moved += bytesOf(chain_, tensor, tiles) * static_cast<double>(plan.slices);
      volumes.push_back(moved);
    }
    return volumes;
  }

  const Chain& chain_;
  const std::vector<int>& cut_;
  const Chip& chip_;
  const SliceNeeds& needs_;
  const v1::CostParameters::Memory& parameters_;
  double capacity_;    ///< bytes that a slice may take
  double into_, out_;  ///< bytes a second into the level, and out of it
  double nest_seconds_;
  std::vector<int> separating_;  ///< of the loops that are cut
};

/// Returns block sizes of an online softmax: whole vectors, long enough to amortize the start of a register tile's
/// sums.
std::vector<int64_t> blocksOf(const Chain& chain, int running, const Chip& chip) {
  if (running < 0) return {};
  Loop loop = chain.loops[running];
  loop.min_tile = chip.costParameters().products().min_running_softmax_block();
  loop.multiple = 64;
  return sizesOf(loop);
}

}  // namespace

double elapsed(double compute, double transfer, double exposed) {
  return std::max(compute, transfer) + exposed * std::min(compute, transfer);
}

bool isSeparating(const Chain& chain, int loop) {
  const Tiles whole = wholeTiles(chain);
  double all = 0, common = 0;
  for (int tensor = 0; tensor < static_cast<int>(chain.accesses.size()); ++tensor) {
    const double bytes = bytesOf(chain, tensor, whole);
    all += bytes;
    if (!chain.uses(tensor, loop)) common += bytes;
  }
  return common <= kSmallShare * all;
}

absl::StatusOr<SlicePlan> planSlices(const Chain& chain, const std::vector<int>& loops, const Chip& chip, size_t level,
                                     const SliceNeeds& needs) {
  TESSERA_RETURN_IF_ERROR(validateChain(chain));
  // Separating loops (the heads of an attention, at any position of the result, with any common mask) share almost no
  // data between their points. As outermost loops they let a point's operands stay near.
  std::vector<int> cut, shared;
  for (int loop : loops) (isSeparating(chain, loop) ? cut : shared).push_back(loop);
  cut.insert(cut.end(), shared.begin(), shared.end());
  const int running = needs.softmax_loop;
  const Slicer slicer(chain, cut, chip, level, needs);
  std::optional<SlicePlan> best, keeping;
  double least = INFINITY;
  // Larger slices come first; smaller ones must be clearly cheaper.
  auto improve = [](std::optional<SlicePlan>& so_far, std::optional<SlicePlan> plan) {
    if (plan && (!so_far || plan->seconds < so_far->seconds * (1 - 5e-3))) so_far = std::move(plan);
  };
  auto consider = [&](const Tiles& tiles) {
    auto plan = slicer.price(tiles, 1);
    if (!plan) return;
    for (int64_t length : slicer.sequenceLengthsToTry(*plan)) improve(keeping, slicer.price(tiles, length));
    improve(best, std::move(plan));
  };
  // Loop by loop from the outermost: earlier loops are cut to their smallest blocks, this one to each size.
  for (size_t at = 0; at < cut.size(); ++at) {
    Tiles tiles = wholeTiles(chain);
    for (size_t outer = 0; outer < at; ++outer) tiles[cut[outer]] = smallestOf(chain.loops[cut[outer]]);
    for (int64_t size : sizesOf(chain.loops[cut[at]])) {
      tiles[cut[at]] = size;
      double held = 0;
      for (int tensor = 0; tensor < static_cast<int>(chain.accesses.size()); ++tensor)
        if (chain.isIntermediate(tensor)) held += bytesOf(chain, tensor, tiles);
      least = std::min(least, held);
      consider(tiles);
      for (int64_t block : blocksOf(chain, running, chip)) {
        tiles[running] = block;
        consider(tiles);
      }
      if (running >= 0) tiles[running] = chain.loops[running].extent;
    }
  }
  if (!best)
    return absl::ResourceExhaustedError(absl::StrCat(
        "the smallest slices hold ", static_cast<int64_t>(least / 1024), " KiB of intermediates, ",
        chip.residentBytes(chip.level(level)) / 1024, " KiB are there for them and what streams past them"));
  if (!keeping) return *best;
  // Reports the price of the alternative, with or without kept halos.
  const double again = best->seconds, kept = keeping->seconds;
  improve(best, std::move(keeping));
  best->other_seconds = best->sequence_length > 1 ? again : kept;
  return *best;
}

}  // namespace tessera::compiler::fusion
