#pragma once

#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/block_planner.h"
#include "compiler/target/chip.h"

/// Chains run slice by slice: a few loops that every member shares are cut, and within a slice the members run one
/// after another over the whole of their other loops. This is less general than Chimera's blocks; it is what code
/// generation can nest around whole products.
namespace tessera::compiler::fusion {

/// Slices of one chain for one memory level.
struct SlicePlan {
  Tiles tiles;  ///< per loop of the chain; the extent if it is not cut
  Order order;  ///< cut loops, outermost first
  int64_t slices = 1;
  int64_t blocks = 1;       ///< of one slice, for an online softmax; `order` ends with their loop
  double held_bytes = 0;    ///< of one slice: intermediates, and the members' other operands and results
  double volume_bytes = 0;  ///< moved into the level, all slices
  double flops = 0;         ///< all slices, overlaps computed again
  double seconds = 0;       ///< the longer of arithmetic and movement of each member; includes idle cores, and unneeded
                            ///< work of smaller runs
  double idle = 1;          ///< work of the busiest core over the average; included in `seconds`
  bool ahead = false;       ///< the next slice's operands fit too: they are loaded while this slice's products run
  int64_t part = 1;         ///< slices along the last loop of `order` that run in sequence and keep their halos
  /// Seconds of the alternative: recompute halos, or keep them; infinite: there are no windows, or it does not fit.
  double other_seconds = std::numeric_limits<double>::infinity();
  bool constants_stay = true;  ///< operands common to all slices fit in addition; otherwise each slice loads them again
};

/// Whether all tensors except small ones are indexed by `loop`, as by heads or batches: its points share almost no
/// data.
bool isSeparating(const Chain& chain, int loop);

/// Special properties of a chain's slices.
struct SliceNeeds {
  std::vector<int> copied = {};  ///< tensors that slices copy first, so that the original is held as well
  /// Reduction loop of the last member along which a softmax between the members runs. It may be cut into blocks with a
  /// running maximum and sum (online softmax) if whole rows cost more. -1: none.
  int running = -1;
  /// Bytes that operators between the members move among themselves if rows are not processed alternately in the near
  /// level: slices with several points of a separating loop (heads) run each of them over all of these points.
  double row_bytes = 0;
};

/// Returns the seconds for `compute` seconds of arithmetic and `transfer` seconds of movement. The longer one hides all
/// but a fraction of the shorter one, given by v1::Prices.Memory.
double elapsed(double compute, double transfer, double exposed);

/// Loop nests of a block of an online softmax in addition to the members': to scale the sums and the partial result,
/// and to keep the old maximum.
inline constexpr int kOnlineSoftmaxNests = 6;

/// Returns the cheapest slices in the chip's memory level `level`, which must not be the last. Of `loops` (outermost
/// first, all accessed by every intermediate; separating loops come before the others) the first ones are cut to single
/// points (or their smallest blocks), one is cut into blocks, and the rest are whole. Slices are distributed over all
/// cores, so few large slices, or a small last one, leave some cores idle. Everything that a slice touches, all members
/// together, must fit, so that data shared with its neighbours is still there for them; otherwise operands common to
/// all slices of the innermost loop are streamed once per slice. If intermediates have windows along the innermost cut
/// loop, its slices may run in sequence in parts, which are then distributed over the cores: all slices of a part
/// except the first compute only new elements, and move those that they keep. RESOURCE_EXHAUSTED if not even the
/// smallest slices fit.
absl::StatusOr<SlicePlan> planSlices(const Chain& chain, const std::vector<int>& loops, const Chip& chip, size_t level,
                                     const SliceNeeds& needs = {});

}  // namespace tessera::compiler::fusion
