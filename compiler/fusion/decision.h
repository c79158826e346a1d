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

/// The fusion policy: which of the candidates for slice-by-slice execution are fused. `kWheneverPossible` fuses every
/// candidate that can run in slices, also at a predicted loss, to compare predictions with measurements
/// (tests/bench/fusion_gains.cpp).
enum class FusionPolicy { kNever, kWhereItPays, kWheneverPossible };

/// A copy of a tensor in another layout or with padding: of an operand before a member reads it, or of a result after a
/// member has written it. In separate execution the copy is a step of its own; otherwise each slice copies its part.
struct LayoutCopy {
  int tensor = 0;
  bool transposed = false;  ///< the contiguous dimensions of source and copy differ
};

/// Returns the seconds to write and read `bytes` between two steps, including one step: an upper bound of what
/// slice-by-slice execution could save.
double roundTripSeconds(const Chip& chip, double bytes);

/// The operators between and around the members, such as a softmax or an activation. They are not members of the chain;
/// their cost is added to both sides of the comparison.
struct BetweenMembers {
  double passes = 0;     ///< how often they read or write each element of an intermediate (a softmax: 6)
  int steps = 0;         ///< number of separate steps that they would be without fusion
  double row_bytes = 0;  ///< see SliceNeeds
  double flops = 0;      ///< arithmetic of these operators and of those after the members, over all points
  std::vector<LayoutCopy> layout_copies = {};  ///< before the first member and after the last
  /// Returns the fraction of the elements that slices of the given tiles compute, if slices skip masked elements; null:
  /// all.
  std::function<double(const Tiles&)> unmasked_share = {};
  std::vector<int> also_written = {};  ///< intermediates with readers outside the chain, which slices write to memory
  int softmax_loop = -1;  ///< loop of a softmax between the last two members; may be cut into blocks (r0); -1: none
};

/// Whether to fuse a chain, with the figures.
struct ChainDecision {
  bool fuse = false;
  double required_gain = 0;  ///< as a fraction of the unfused seconds, see v1::CostParameters::Gains
  std::string reason;        ///< one sentence with numbers
  std::string level;         ///< name of the memory level that holds the blocks
  double fused_seconds = 0, unfused_seconds = 0;
  double fused_bytes = 0, unfused_bytes = 0;  ///< moved into that level
  std::optional<SlicePlan> slices;            ///< of decideSlices
};

/// Data movement of operators that run separately, in blocks of a memory. Long and short chains share members, and a
/// search for the blocks of one takes a millisecond, so results are cached. For one chip; not thread-safe.
class UnfusedTraffic {
 public:
  /// Returns the bytes moved by tensor. RESOURCE_EXHAUSTED if not even the smallest blocks fit.
  absl::StatusOr<std::vector<double>> of(const Chain& one, double capacity_bytes);

 private:
  std::map<std::string, std::vector<double>> known_;  // by structuralKey and capacity
};

/// Predicts the time of a chain, fused and separate. Fused code cuts the loops `cut` (outermost first) and runs all
/// members one after another within a slice (slice_plan.h). Uses the largest memory level of one core. Seconds are
/// arithmetic and data movement (elapsed()), plus the passes in between. Declines if the gain is less than
/// the chip requires (v1::CostParameters::Gains).
/// `unfused` caches the traffic of separate members across chains; null: no cache.
absl::StatusOr<ChainDecision> decideSlices(const Chain& chain, const std::vector<int>& cut, const Chip& chip,
                                           const BetweenMembers& between = {}, UnfusedTraffic* unfused = nullptr);

}  // namespace tessera::compiler::fusion
