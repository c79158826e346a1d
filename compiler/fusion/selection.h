#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Selects fusions among overlapping candidates.
namespace tessera::compiler::fusion {

/// Groups that would run as one kernel.
struct FusionSet {
  std::vector<int> groups;
  double gain = 0;  ///< positive; any unit, the same for all sets
};

struct Selection {
  std::vector<int> selected;  ///< positions of sets, ascending; no two have a common group
  double gain = 0;            ///< total of the selected sets
  double optimality_gap = 0;  ///< bound on the extra gain of any other selection; 0: this selection is optimal
  /// Number of sets in the largest connected component. Two sets with a common group are neighbours; sets in different
  /// components do not influence each other.
  size_t largest_part = 0;
};

/// Bound on the partial selections that are kept at once. With it, every component of up to 12 sets is solved exactly,
/// and a larger component if few sets contain groups on both sides of any position, as along a chain.
inline constexpr size_t kMaxPartialSelections = 4096;

/// Returns the disjoint sets with the largest total gain, by dynamic programming along the groups. A state consists of
/// the used groups that later sets also contain, since only these restrict later choices. If there are more than
/// `max_states` states, the least promising ones are dropped, and `optimality_gap` bounds the loss. Of equal totals,
/// the one with the earlier set is kept.
Selection select(std::span<const FusionSet> sets, size_t max_states = kMaxPartialSelections);

}  // namespace tessera::compiler::fusion
