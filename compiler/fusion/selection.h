#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Which of the fusions that are offered happen, where they want the same groups.
namespace tessera::compiler::fusion {

/// Groups that would run as one.
struct Offer {
  std::vector<int> groups;
  double gain = 0;  ///< above 0, in any unit
};

struct Selection {
  std::vector<int> taken;  ///< positions of offers, ascending; no two share a group
  double gain = 0;
  double missed = 0;   ///< no other selection gains more than so much more; 0: this is the best
  size_t largest = 0;  ///< offers of the largest part: those that overlap, directly or through others
};

/// Sets of groups taken that are looked at side by side: every part of up to 12 offers is solved exactly, and a longer
/// one where few of its groups are wanted on both sides of any place along the order, as along a chain.
inline constexpr size_t kMostOpenSelections = 4096;

/// The offers of the largest sum of gains: a dynamic programme along the groups over which of those that later offers
/// want are taken. Beyond `most_open` such sets the least promising are dropped, and `missed` bounds what that may have
/// cost. Equal sums keep the earlier offer.
Selection select(std::span<const Offer> offers, size_t most_open = kMostOpenSelections);

}  // namespace tessera::compiler::fusion
