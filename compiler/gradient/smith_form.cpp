#include "compiler/gradient/smith_form.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

absl::Status overflow() { return absl::OutOfRangeError("the coefficients of the subscripts are too large to solve"); }

/// target -= factor * source, entry by entry.
absl::Status subtractRow(IntegerMatrix& matrix, size_t target, size_t source, int64_t factor) {
  for (size_t c = 0; c < matrix[target].size(); ++c) {
    int64_t product = 0;
    if (__builtin_mul_overflow(factor, matrix[source][c], &product) ||
        __builtin_sub_overflow(matrix[target][c], product, &matrix[target][c]))
      return overflow();
  }
  return absl::OkStatus();
}

absl::Status subtractColumn(IntegerMatrix& matrix, size_t target, size_t source, int64_t factor) {
  for (std::vector<int64_t>& row : matrix) {
    int64_t product = 0;
    if (__builtin_mul_overflow(factor, row[source], &product) ||
        __builtin_sub_overflow(row[target], product, &row[target]))
      return overflow();
  }
  return absl::OkStatus();
}

void swapColumns(IntegerMatrix& matrix, size_t one, size_t other) {
  for (std::vector<int64_t>& row : matrix) std::swap(row[one], row[other]);
}

void negateRow(std::vector<int64_t>& row) {
  for (int64_t& entry : row) entry = -entry;
}

IntegerMatrix identity(size_t size) {
  IntegerMatrix matrix(size, std::vector<int64_t>(size, 0));
  for (size_t i = 0; i < size; ++i) matrix[i][i] = 1;
  return matrix;
}

/// Moves the smallest entry of the part from (at, at) on to (at, at). False if all are 0.
bool movePivot(IntegerMatrix& matrix, size_t at, SmithForm& form) {
  size_t best_row = 0, best_column = 0;
  int64_t best = 0;
  for (size_t r = at; r < matrix.size(); ++r)
    for (size_t c = at; c < matrix[r].size(); ++c) {
      const int64_t size = std::abs(matrix[r][c]);
      if (size == 0 || (best != 0 && size >= best)) continue;
      best = size;
      best_row = r;
      best_column = c;
    }
  if (best == 0) return false;
  std::swap(matrix[at], matrix[best_row]);
  std::swap(form.left[at], form.left[best_row]);
  swapColumns(matrix, at, best_column);
  swapColumns(form.right, at, best_column);
  return true;
}

/// One round of division by the pivot. True if its row and column are otherwise 0 afterwards.
absl::StatusOr<bool> clear(IntegerMatrix& matrix, size_t at, SmithForm& form) {
  bool cleared = true;
  for (size_t r = at + 1; r < matrix.size(); ++r) {
    const int64_t factor = matrix[r][at] / matrix[at][at];
    if (factor != 0) {
      TESSERA_RETURN_IF_ERROR(subtractRow(matrix, r, at, factor));
      TESSERA_RETURN_IF_ERROR(subtractRow(form.left, r, at, factor));
    }
    cleared = cleared && matrix[r][at] == 0;
  }
  for (size_t c = at + 1; c < matrix[at].size(); ++c) {
    const int64_t factor = matrix[at][c] / matrix[at][at];
    if (factor != 0) {
      TESSERA_RETURN_IF_ERROR(subtractColumn(matrix, c, at, factor));
      TESSERA_RETURN_IF_ERROR(subtractColumn(form.right, c, at, factor));
    }
    cleared = cleared && matrix[at][c] == 0;
  }
  return cleared;
}

}  // namespace

absl::StatusOr<SmithForm> smithForm(IntegerMatrix matrix, size_t columns) {
  SmithForm form{.left = identity(matrix.size()), .right = identity(columns), .diagonal = {}};
  for (size_t at = 0; at < std::min(matrix.size(), columns); ++at) {
    // Remainders become the next pivot, so pivots shrink until one divides its whole row and column.
    bool cleared = false;
    while (!cleared) {
      if (!movePivot(matrix, at, form)) return form;
      TESSERA_ASSIGN_OR_RETURN(cleared, clear(matrix, at, form));
    }
    if (matrix[at][at] < 0) {
      negateRow(matrix[at]);
      negateRow(form.left[at]);
    }
    form.diagonal.push_back(matrix[at][at]);
  }
  return form;
}

absl::StatusOr<int64_t> reduceRow(IntegerMatrix& matrix, size_t row, size_t first) {
  const size_t columns = matrix[row].size();
  while (true) {
    size_t pivot = columns, others = 0;
    for (size_t c = first; c < columns; ++c) {
      if (matrix[row][c] == 0) continue;
      ++others;
      if (pivot == columns || std::abs(matrix[row][c]) < std::abs(matrix[row][pivot])) pivot = c;
    }
    if (pivot == columns) return 0;
    swapColumns(matrix, first, pivot);
    if (others == 1) break;
    for (size_t c = first + 1; c < columns; ++c) {
      const int64_t factor = matrix[row][c] / matrix[row][first];
      if (factor != 0) TESSERA_RETURN_IF_ERROR(subtractColumn(matrix, c, first, factor));
    }
  }
  if (matrix[row][first] < 0)
    for (std::vector<int64_t>& each : matrix) each[first] = -each[first];
  return matrix[row][first];
}

}  // namespace tessera::compiler::gradient
