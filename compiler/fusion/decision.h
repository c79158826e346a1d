#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/block_planner.h"
#include "compiler/fusion/slice_plan.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::fusion {

/// Which of the groups that may run slice by slice do. `kWhereverItCan` takes every one that has a price, also where it
/// is priced as a loss: to hold prices against what is measured (tests/bench/fusion_gains.cpp).
enum class Merging { kNever, kWhereItPays, kWhereverItCan };

/// One core of a chip with its share of the memory levels.
struct ChainMachine {
  struct MemoryLevel {
    std::string name;
    double capacity_bytes = 0;    ///< 0: as large as needed
    double bytes_per_second = 0;  ///< from it to the core
    bool shared = false;
  };
  double flops_per_second = 0;
  std::vector<MemoryLevel> levels;  ///< nearest first
  double step_seconds = 1e-6;       ///< of one more call with its barrier
  int cores = 1;                    ///< slices are dealt to so many
  double cycles_per_second = 1e9;
};

/// Fails with INVALID_ARGUMENT when the description lacks a clock, operations per cycle or two memory levels.
absl::StatusOr<ChainMachine> chainMachineOf(const v1::Target& target);

/// A tensor that is only moved to where a member reads it, or from where one has written it: a padded copy, another
/// layout. The copy is a step of its own, or part of each slice.
struct Moved {
  int tensor = 0;
  bool turned = false;  ///< what is contiguous in one place is not in the other
};

/// Cycles for each element of f32 that a step of its own copies, in and out of the last cache, padding or turning it
/// (LayoutPrices says the same), and that a slice copies, between the last cache and the core's own. Results that are
/// turned as they are stored touch a line and a page a channel (C1, C2 and C8 of table 3.6: 2 to 2.5 cycles; what they
/// read 0.9 to 1).
inline constexpr double kCopyCycles = 1.2, kTurnCycles = 2;
inline constexpr double kSliceCopyCycles = 0.5, kSliceTurnCycles = 1, kSliceTurnBackCycles = 2;

/// Seconds for `bytes` that lie between two steps to be written and read again, a step included: all that running both
/// slice by slice could save. Lines are read before they are written.
double betweenSteps(const ChainMachine& machine, double bytes);

/// What stands between and around the members: how often every element of an intermediate is read or written by
/// operators in between (a softmax: 6), and how many steps of their own these would be.
struct Between {
  double passes = 0;
  int steps = 0;
  double flops = 0;               ///< arithmetic of these and of what follows the members, over all points
  std::vector<Moved> moved = {};  ///< before the first member and behind the last
  /// The part of the work of slices of given tiles that is left where they skip what a mask removes; none: all.
  std::function<double(const Tiles&)> kept = {};
  int running = -1;  ///< loop along which a softmax runs between the last two members: may be cut into blocks (r0)
};

/// Whether to run a chain block by block, with the figures.
struct ChainDecision {
  bool fuse = false;
  std::string reason;  ///< one sentence with numbers
  std::string level;   ///< the blocks fit in
  double fused_seconds = 0, unfused_seconds = 0;
  double fused_bytes = 0, unfused_bytes = 0;  ///< moved into that level
  std::optional<SlicePlan> slices;            ///< of decideSlices
};

/// Of slices: below, a prediction is within what a machine's load changes. Of fifteen chains that fusion_gains measured
/// all that were priced at 2 % or more gained or (two, within their noise) stayed as they were.
inline constexpr double kLeastGain = 0.015;
/// Of slices that overlap: those at the border have other shapes, and rows with their halo fill no register tile.
inline constexpr double kLeastOverlapGain = 0.03;

/// Prices the chain both ways for code that cuts the loops `cut` (outermost first) and runs all members one after
/// another within a slice (slice_plan.h). The largest level of one core is taken, `share` of it; seconds are those of
/// arithmetic and data movement (elapsed), plus the passes between. A gain below kLeastGain (kLeastOverlapGain) is
/// declined.
absl::StatusOr<ChainDecision> decideSlices(const Chain& chain, const std::vector<int>& cut, const ChainMachine& machine,
                                           const Between& between = {}, double share = 0.75);

}  // namespace tessera::compiler::fusion
