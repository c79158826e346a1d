#pragma once

#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/block_planner.h"
#include "compiler/target/chip.h"

/// Chains run slice by slice: a few loops that every member shares are cut, and within a slice the members run one
/// after another over their whole other loops. Less general than Chimera's blocks, and what code generation can nest
/// around whole products.
namespace tessera::compiler::fusion {

/// Slices of one chain for one memory level.
struct SlicePlan {
  Tiles tiles;  ///< per loop of the chain; the extent where it is not cut
  Order order;  ///< loops that are cut, outermost first
  int64_t slices = 1;
  int64_t blocks = 1;       ///< of one slice, with a running maximum and sum; `order` ends with their loop
  double held_bytes = 0;    ///< of one slice: intermediates, and what members read and write beside them
  double volume_bytes = 0;  ///< moved into the level, all slices
  double flops = 0;         ///< all slices, overlaps computed again
  double seconds = 0;       ///< arithmetic or movement of each member, whichever is longer; idle cores included, and
                            ///< what runs that may be smaller compute in vain
  double idle = 1;          ///< work of the core with the most over the average; included in `seconds`
  bool ahead = false;       ///< the next slice's operands fit beside: they come while this one's products run
  int64_t part = 1;         ///< slices along the last of `order` that follow each other in time and keep their halos
  /// What slices take that do it the other way: compute halos again, or keep them; infinite: no windows, or none fit.
  double other_seconds = std::numeric_limits<double>::infinity();
  bool constants_stay = true;  ///< what all slices read fits beside them; else each slice brings it again
};

/// Whether all tensors but small ones walk `loop`, as heads or batches do: its points have next to nothing in common.
bool separates(const Chain& chain, int loop);

/// What is particular about a chain's slices.
struct SliceNeeds {
  std::vector<int> copied = {};  ///< tensors that slices copy first hold the original as well
  /// A reduction of the last member that a softmax between the members runs along: it may be cut into blocks, with a
  /// running maximum and sum, where whole rows cost more. -1: none.
  int running = -1;
  /// Bytes that operators between the members move among themselves, where rows do not take turns in the near level:
  /// slices of several points of a loop that separates (heads) run each of them over all of these points.
  double row_bytes = 0;
};

/// Seconds for `compute` seconds of arithmetic and `transfer` seconds of movement, of which the longer hides all but a
/// part of the shorter: v1::Prices.Memory has such parts.
double elapsed(double compute, double transfer, double exposed);

/// Nests that a block of a running softmax has beside the members' own: to scale the sums and the result so far, and to
/// keep the old maximum.
inline constexpr int kRunningNests = 6;

/// The cheapest slices in the chip's level number `level`, which is not the last: of `loops` (outermost first, all
/// accessed by every intermediate; those that all but small tensors walk go before the others) the first ones in single
/// points (or their smallest blocks), one in blocks, the rest whole. Slices are dealt to all cores, so few large ones,
/// or a small last one, leave some idle. What a slice touches, all members together, has to fit, so that what its
/// neighbours share is still there for them; or else what all slices of the innermost loop read streams past them, once
/// for each. Where intermediates have windows along the innermost loop that is cut, its slices may follow each other in
/// parts, which are dealt to the cores instead: all but the first of a part compute only what is new, and move what
/// they keep. RESOURCE_EXHAUSTED when not even the smallest fit.
absl::StatusOr<SlicePlan> planSlices(const Chain& chain, const std::vector<int>& loops, const Chip& chip, size_t level,
                                     const SliceNeeds& needs = {});

}  // namespace tessera::compiler::fusion
