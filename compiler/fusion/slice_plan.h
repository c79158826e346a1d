#pragma once

#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/block_planner.h"
#include "compiler/target/chip.h"

/// Chains run slice by slice: a few loops that every member shares are cut, and within a slice the members run one
/// after another over the whole of their other loops. This is less general than Chimera's blocks; it is what code
/// generation can nest around whole products.
///
/// Neighbouring slices overlap where a member reads windows. The overlap of an intermediate (its halo) is computed
/// again by each slice, or kept: then the slices of a sequence run one after another on one core, and each finds the
/// halo in the buffers of the slice before.
namespace tessera::compiler::fusion {

/// Slices of one chain for one memory level.
struct SlicePlan {
  Tiles tiles;  ///< per loop of the chain; the extent if it is not cut
  Order order;  ///< cut loops, outermost first
  int64_t slices = 1;
  int64_t blocks = 1;       ///< in one slice, for an online softmax: blocks of the last loop of `order`
  double held_bytes = 0;    ///< of one slice: intermediates, and the members' other operands and results
  double volume_bytes = 0;  ///< moved into the level, all slices
  double flops = 0;         ///< all slices, recomputed overlaps included
  /// Sum over the members of elapsed(). Includes `imbalance`, and the work on elements that runs of smaller sizes do
  /// not need.
  double seconds = 0;
  double imbalance = 1;          ///< work of the busiest core over the average
  bool prefetches_next = false;  ///< the next slice's operands fit too and are loaded while this slice's products run
  int64_t sequence_length = 1;   ///< slices along the last loop of `order` that run in sequence and keep their halos
  /// Seconds of the best plan of the other policy: recomputing halos if this plan keeps them, keeping them if it
  /// recomputes. Infinite if no windows overlap, or if that plan does not fit.
  double other_seconds = std::numeric_limits<double>::infinity();
  bool constants_stay = true;  ///< operands common to all slices fit in addition; otherwise each slice loads them again
};

/// Whether `loop` separates the data, as a loop over heads or batches does: it indexes all tensors except small ones,
/// so that its points share almost no data.
bool isSeparating(const Chain& chain, int loop);

/// Special properties of a chain's slices.
struct SliceNeeds {
  std::vector<int> copied = {};  ///< tensors that slices copy first, so that the original is held as well
  /// Reduction loop of the last member along which a softmax between the members runs. It may be cut into blocks with a
  /// running maximum and sum (online softmax) if whole rows cost more. -1: none.
  int softmax_loop = -1;
  /// Bytes that operators between the members move through farther levels if they do not process a few rows alternately
  /// in the near level. This happens in slices with several points of a separating loop (heads): each operator then
  /// runs over all of these points before the next one starts.
  double row_bytes = 0;
};

/// Returns the seconds for `compute` seconds of arithmetic and `transfer` seconds of movement. The longer one hides all
/// but a fraction of the shorter one, given by v1::CostParameters.Memory.
double elapsed(double compute, double transfer, double exposed);

/// Loop nests of a block of an online softmax in addition to the members': to scale the sums and the partial result,
/// and to keep the old maximum.
inline constexpr int kOnlineSoftmaxNests = 6;

/// Returns the cheapest slices in the chip's memory level `level`, which must not be the last. `loops` are the loops
/// that may be cut, outermost first, separating loops before the others; every intermediate is indexed by all of them.
///
/// Which loops are cut: the first ones to single points (or their smallest blocks), one into blocks; the rest stay
/// whole.
///
/// What must fit: the data of one slice, all members together, so that data shared with neighbouring slices is still in
/// the level when these run. If operands that all slices of the innermost loop share do not fit in addition, each slice
/// loads them again (`constants_stay`).
///
/// Distribution: slices go to all cores, so few large slices, or a small last one, leave cores idle (`imbalance`). If
/// intermediates have windows along the innermost cut loop, its slices may form sequences of `sequence_length` slices,
/// and the sequences go to the cores. All slices of a sequence except the first compute only new elements; the cost
/// includes moving the kept ones.
///
/// RESOURCE_EXHAUSTED if not even the smallest slices fit.
absl::StatusOr<SlicePlan> planSlices(const Chain& chain, const std::vector<int>& loops, const Chip& chip, size_t level,
                                     const SliceNeeds& needs = {});

}  // namespace tessera::compiler::fusion
