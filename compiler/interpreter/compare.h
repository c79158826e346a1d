#pragma once

#include <cstdint>
#include <string>

#include "compiler/interpreter/array.h"

namespace tessera::compiler::interpreter {

/// How far two answers lie apart, measured by what rounding allows.
struct Difference {
  int64_t elements = 0;
  int64_t undecided = 0;  ///< elements of which rounding decides, or whose bound exceeds a tenth of the largest value
  double largest_error = 0;     ///< of all that is finite
  double share = 0;             ///< of its bound, at the worst element; infinite where nothing was allowed
  double bound = 0;             ///< there
  int64_t position = -1;        ///< there, row-major; -1: nothing differs
  Scalar expected, found;       ///< there
  int64_t newly_undecided = 0;  ///< elements of which `found` says nothing, and `expected` does

  /// Within bounds, and not by saying nothing: at most 1 in 100 elements (and 4) may become undecidable.
  bool isWithin() const { return share <= 1 && newly_undecided <= 4 + elements / 100; }
};

/// Element by element, both of one shape: |expected - found| is at most kDeviations times both estimates. Integers
/// without estimates are equal, NaN meets NaN and infinity infinity (or a value whose bound reaches the type's
/// largest).
Difference compare(const Array& expected, const Array& found);

/// "element 5 is 1.25 instead of 1 (error 0.25, bound 1e-06)".
std::string describe(const Difference& difference, Element element);

}  // namespace tessera::compiler::interpreter
