#pragma once

#include <vector>

namespace tessera::compiler {

/// The median of values, and the median absolute deviation (MAD): a burst of other load on the machine changes neither.
struct Spread {
  double median = 0;
  double deviation = 0;

  /// The deviation relative to the median; infinite if that is 0.
  double share() const;
};

/// Requires at least one value. For an even number of values, the mean of the two in the middle.
Spread spreadOf(std::vector<double> values);

}  // namespace tessera::compiler
