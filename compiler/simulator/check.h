#pragma once

#include "compiler/simulator/program.h"

namespace tessera::compiler::simulator {

/// What a run of the program computed, held against the operator's own loops.
struct Checked {
  int64_t results = 0, of = 0;  ///< elements of the destination that were computed and compared, and all of them
  double largest_error = 0;     ///< of floating-point results: distance from the exact sum
  double largest_share = 0;     ///< of an error in its bound; above 1 is wrong
  int64_t wrong = 0;        ///< elements: integers that differ, numbers beyond their bound, results that are missing
  std::string first_wrong;  ///< the first of them
  bool floating = false;
  bool whole() const { return results == of; }
  bool right() const { return wrong == 0; }
};

/// Runs the program on tensors drawn from `seed` and compares: integers exactly, floating-point numbers within what
/// the instruction's roundings may add up to, |error| <= ((1 + u)^k - 1) * sum |products| for k roundings of unit
/// roundoff u. Sources are drawn in the instruction's element types. The reference walks the operator's loops and knows
/// nothing of the mapping. Where the operator has more than `most_points` points, tiles of the result are left out
/// (`results` < `of`); RESOURCE_EXHAUSTED where single tiles have many more. Errors of execute() are passed on.
absl::StatusOr<Checked> check(const Program& program, uint64_t seed, int64_t most_points);

}  // namespace tessera::compiler::simulator
