#pragma once

#include "compiler/backends/spatial/program.h"

namespace tessera::compiler::simulator {

/// The result of comparing a program's output with the operator's own loops.
struct Checked {
  int64_t results = 0, of = 0;  ///< elements of the destination that were computed and compared, and their total number
  double largest_error = 0;     ///< of floating-point results: largest distance from the exact sum
  double largest_error_ratio = 0;  ///< largest error divided by its bound; above 1 is wrong
  /// number of wrong elements: integers that differ, numbers beyond their bound, missing results
  int64_t wrong = 0;
  std::string first_wrong;  ///< description of the first wrong element
  bool floating = false;
  bool whole() const { return results == of; }
  bool right() const { return wrong == 0; }
};

/// Runs the program on random tensors from `seed` and compares: integers exactly, floating-point numbers within the
/// bound of the instruction's rounding errors, |error| <= ((1 + u)^k - 1) * sum |products| for k roundings of unit
/// roundoff u. Sources are drawn in the instruction's element types. The reference walks the operator's loops and does
/// not use the mapping. If the operator has more than `most_points` points, some tiles of the result are left out
/// (`results` < `of`); fails with RESOURCE_EXHAUSTED if single tiles have many more. Errors of execute() are passed on.
absl::StatusOr<Checked> check(const Program& program, uint64_t seed, int64_t most_points);

}  // namespace tessera::compiler::simulator
