#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/block_planner.h"
#include "compiler/fusion/slice_plan.h"

namespace tessera::compiler::fusion {

/// Which of the groups that may run slice by slice do. `kWhereverItCan` takes every one that has a price, also where it
/// is priced as a loss: to hold prices against what is measured (tests/bench/fusion_gains.cpp).
enum class Merging { kNever, kWhereItPays, kWhereverItCan };

/// A tensor that is only moved to where a member reads it, or from where one has written it: a padded copy, another
/// layout. The copy is a step of its own, or part of each slice.
struct Moved {
  int tensor = 0;
  bool turned = false;  ///< what is contiguous in one place is not in the other
};

/// Seconds for `bytes` that lie between two steps to be written and read again, a step included: all that running both
/// slice by slice could save.
double betweenSteps(const Chip& chip, double bytes);

/// What stands between and around the members: how often every element of an intermediate is read or written by
/// operators in between (a softmax: 6), and how many steps of their own these would be.
struct Between {
  double passes = 0;
  int steps = 0;
  double row_bytes = 0;           ///< see SliceNeeds
  double flops = 0;               ///< arithmetic of these and of what follows the members, over all points
  std::vector<Moved> moved = {};  ///< before the first member and behind the last
  /// The part of the work of slices of given tiles that is left where they skip what a mask removes; none: all.
  std::function<double(const Tiles&)> kept = {};
  std::vector<int> left = {};  ///< intermediates that others read as well: slices write them to memory, too
  int running = -1;  ///< loop along which a softmax runs between the last two members: may be cut into blocks (r0)
};

/// Whether to run a chain block by block, with the figures.
struct ChainDecision {
  bool fuse = false;
  double least = 0;    ///< part of the unfused seconds that it has to gain, see v1::Prices::Gains
  std::string reason;  ///< one sentence with numbers
  std::string level;   ///< the blocks fit in
  double fused_seconds = 0, unfused_seconds = 0;
  double fused_bytes = 0, unfused_bytes = 0;  ///< moved into that level
  std::optional<SlicePlan> slices;            ///< of decideSlices
};

/// What operators move that run alone, in blocks of a memory. Long and short chains share their members, and a search
/// for the blocks of one takes a millisecond: it is kept. One chip's; not thread-safe.
class MovedAlone {
 public:
  /// Bytes by tensor. RESOURCE_EXHAUSTED where not even the smallest blocks fit.
  absl::StatusOr<std::vector<double>> of(const Chain& one, double capacity_bytes);

 private:
  std::map<std::string, std::vector<double>> known_;  // by contentOf and capacity
};

/// Prices the chain both ways for code that cuts the loops `cut` (outermost first) and runs all members one after
/// another within a slice (slice_plan.h). The largest level of one core is taken; seconds are those of
/// arithmetic and data movement (elapsed), plus the passes between. A gain below the chip's
/// least one is declined. `known` serves the next chains as well.
absl::StatusOr<ChainDecision> decideSlices(const Chain& chain, const std::vector<int>& cut, const Chip& chip,
                                           const Between& between = {}, MovedAlone* known = nullptr);

}  // namespace tessera::compiler::fusion
