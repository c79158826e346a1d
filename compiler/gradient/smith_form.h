#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::compiler::gradient {

/// Rows of equal length.
using IntegerMatrix = std::vector<std::vector<int64_t>>;

/// left * matrix * right = diagonal, with left and right unimodular: integer matrices whose inverses are integer, too.
/// Smith's normal form except that an entry of the diagonal need not divide the next one; solving equations does not
/// need that, and without it independent equations stay apart.
struct SmithForm {
  IntegerMatrix left, right;
  std::vector<int64_t> diagonal;  ///< positive; its length is the rank
};

/// Fails with OUT_OF_RANGE if an entry exceeds 64 bits. All rows of `matrix` have `columns` entries.
absl::StatusOr<SmithForm> smithForm(IntegerMatrix matrix, size_t columns);

/// Makes row `row` of `matrix` zero right of column `first` by unimodular operations on the columns from `first` on,
/// which all rows of `matrix` undergo. Returns the entry in column `first`: the greatest common divisor, at least 0.
absl::StatusOr<int64_t> reduceRow(IntegerMatrix& matrix, size_t row, size_t first);

}  // namespace tessera::compiler::gradient
