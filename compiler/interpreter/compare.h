#pragma once

#include <cstdint>
#include <string>

#include "compiler/interpreter/array.h"

namespace tessera::compiler::interpreter {

/// The difference of two results relative to the allowed rounding error.
struct Difference {
  int64_t elements = 0;
  /// elements that depend on rounding decisions, or whose bound exceeds a tenth of the largest value
  int64_t undecided = 0;
  double largest_error = 0;     ///< over finite values
  double share = 0;             ///< error divided by its bound, at the worst element; infinite if no error was allowed
  double bound = 0;             ///< at the worst element
  int64_t position = -1;        ///< of the worst element, row-major; -1: no difference
  Scalar expected, found;       ///< of the worst element
  int64_t newly_undecided = 0;  ///< elements with an unknown value in `found` but a known one in `expected`

  /// Whether all errors are within bounds, with at most 4 elements plus 1 in 100 newly undecided.
  bool isWithin() const { return share <= 1 && newly_undecided <= 4 + elements / 100; }
};

/// Compares arrays of one shape element by element: |expected - found| may be at most kDeviations times both estimates.
/// Integers without estimates must be equal, NaN must meet NaN, and infinity must meet infinity (or a value whose bound
/// reaches the type's largest number).
Difference compare(const Array& expected, const Array& found);

/// "element 5 is 1.25 instead of 1 (error 0.25, bound 1e-06)".
std::string describe(const Difference& difference, Element element);

}  // namespace tessera::compiler::interpreter
