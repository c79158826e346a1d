#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Selects fusions among overlapping candidates.
namespace tessera::compiler::fusion {

/// Groups that would run as one.
struct Offer {
  std::vector<int> groups;
  double gain = 0;  ///< positive, in any unit
};

struct Selection {
  std::vector<int> taken;  ///< positions of offers, ascending, without common groups
  double gain = 0;
  double missed = 0;   ///< bound on the extra gain of any other selection; 0: optimal
  size_t largest = 0;  ///< number of offers in the largest part, a set of offers that overlap directly or through
                       ///< others
};

/// Bound on the partial selections that are kept at once. It solves every part of up to 12 offers exactly, and longer
/// parts if few of their groups are shared across any position of the order, as along a chain.
inline constexpr size_t kMaxPartialSelections = 4096;

/// Returns the offers with the largest total gain: dynamic programming along the groups over the set of taken groups
/// that later offers contain. If there are more than `most_open` such sets, the least promising ones are dropped, and
/// `missed` bounds the loss. Equal totals keep the earlier offer.
Selection select(std::span<const Offer> offers, size_t most_open = kMaxPartialSelections);

}  // namespace tessera::compiler::fusion
