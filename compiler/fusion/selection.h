#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Selects fusions among overlapping candidates.
namespace tessera::compiler::fusion {

/// A candidate for fusion: groups that would run as one.
struct Offer {
  std::vector<int> groups;
  double gain = 0;  ///< positive; any unit, the same for all offers
};

struct Selection {
  std::vector<int> taken;  ///< positions of offers, ascending, without common groups
  double gain = 0;         ///< total of the taken offers
  double missed = 0;       ///< bound on the extra gain of any other selection; 0: this selection is optimal
  /// Number of offers in the largest connected part. Two offers with a common group are neighbours; offers in different
  /// parts do not influence each other.
  size_t largest = 0;
};

/// Bound on the partial selections that are kept at once. With it, every part of up to 12 offers is solved exactly, and
/// a larger part if few offers contain groups on both sides of any position, as along a chain.
inline constexpr size_t kMaxPartialSelections = 4096;

/// Returns the offers with the largest total gain, by dynamic programming along the groups. A state is the set of taken
/// groups that later offers also contain, since only these restrict later choices. If there are more than `most_open`
/// states, the least promising ones are dropped, and `missed` bounds the loss. Equal totals keep the earlier offer.
Selection select(std::span<const Offer> offers, size_t most_open = kMaxPartialSelections);

}  // namespace tessera::compiler::fusion
