#pragma once

#include <vector>

namespace tessera::compiler {

/// The middle of values, and the middle distance from it (MAD): a burst of other work on the machine moves neither.
struct Spread {
  double median = 0;
  double deviation = 0;

  /// The deviation as part of the median; infinite where that is 0.
  double share() const;
};

/// Of at least one value. Of an even number of them: the mean of the two in the middle.
Spread spreadOf(std::vector<double> values);

}  // namespace tessera::compiler
