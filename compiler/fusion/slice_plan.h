#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/fusion/block_planner.h"

/// Chains run slice by slice: a few loops that every member shares are cut, and within a slice the members run one
/// after another over their whole other loops. Less general than Chimera's blocks, and what code generation can nest
/// around whole products.
namespace tessera::compiler::fusion {

/// Slices of one chain for one memory level.
struct SlicePlan {
  Tiles tiles;  ///< per loop of the chain; the extent where it is not cut
  Order order;  ///< loops that are cut, outermost first
  int64_t slices = 1;
  int64_t blocks = 1;          ///< of one slice, with a running maximum and sum; `order` ends with their loop
  double held_bytes = 0;       ///< of one slice: intermediates, and what members read and write beside them
  double volume_bytes = 0;     ///< moved into the level, all slices
  double flops = 0;            ///< all slices, overlaps computed again
  double seconds = 0;          ///< arithmetic or movement of each member, whichever is longer; idle cores included
  double idle = 1;             ///< work of the core with the most over the average; included in `seconds`
  bool ahead = false;          ///< the next slice's operands fit beside: they come while this one's products run
  bool constants_stay = true;  ///< what all slices read fits beside them; else each slice brings it again
};

/// Whether all tensors but small ones walk `loop`, as heads or batches do: its points have next to nothing in common.
bool separates(const Chain& chain, int loop);

/// Of one member in one slice, before and after its inner loops and for the shorter ones among them. Measured:
/// chain_benchmark G2 (softmax) and G8 with slices of 24 rows against 64 differ by 340 and 470 ns for each further
/// nest.
inline constexpr double kNestSeconds = 4e-7;

struct SliceMachine {
  double capacity_bytes = 0;
  double bytes_per_second = 0;       ///< into the level
  double near_bytes_per_second = 0;  ///< out of it; 0 = what goes round within the level costs nothing
  double flops_per_second = 0;
  int cores = 1;
  double nest_seconds = kNestSeconds;
  std::vector<int> copied = {};  ///< tensors that slices copy first hold the original as well
};

/// Part of the shorter of arithmetic and movement that does not hide behind the longer one. Measured with fusion_gains
/// (tests/bench, table in README.md): what an intermediate's way to L3 and back costs, written lines read first, is 0.6
/// to 2.8 times its bytes by the target's bandwidth, in the geometric mean of seven chains 1.4. So nothing hides: a
/// core that waits for a line, or for room to store one, computes nothing meanwhile.
inline constexpr double kExposed = 1;
/// The same where code generation fetches the next slice's operands while this one's products run: of what G1's
/// operands cost beside having them in L2 before, half was gone; of what G4's cost, four fifths.
inline constexpr double kExposedAhead = 0.4;
/// Seconds for `compute` seconds of arithmetic and `transfer` seconds of movement.
double elapsed(double compute, double transfer, double exposed = kExposed);

/// Nests that a block of a running softmax has beside the members' own: to scale the sums and the result so far, and to
/// keep the old maximum.
inline constexpr int kRunningNests = 6;

/// The cheapest slices: of `loops` (outermost first, all accessed by every intermediate; those that all but small
/// tensors walk go before the others) the first ones in single points (or their smallest blocks), one in blocks, the
/// rest whole. Slices are dealt to all cores, so few large ones, or a small last one, leave some idle. What a slice
/// touches, all members together, has to fit, so that what its neighbours share is still there for them; or else what
/// all slices of the innermost loop read streams past them, once for each. `running` (-1: none) is a reduction of the
/// last member that a softmax between the members runs along: it may be cut into blocks, with a running maximum and
/// sum, where whole rows cost more. RESOURCE_EXHAUSTED when not even the smallest fit.
absl::StatusOr<SlicePlan> planSlices(const Chain& chain, const std::vector<int>& loops, const SliceMachine& machine,
                                     int running = -1);

}  // namespace tessera::compiler::fusion
