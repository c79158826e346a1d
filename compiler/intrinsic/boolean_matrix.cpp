#include "compiler/intrinsic/boolean_matrix.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera::compiler::intrinsic {

BooleanMatrix::BooleanMatrix(std::vector<std::string> row_names, std::vector<std::string> column_names)
    : rows(std::move(row_names)),
      columns(std::move(column_names)),
      at(rows.size(), std::vector<bool>(columns.size(), false)) {}

BooleanMatrix star(const BooleanMatrix& left, const BooleanMatrix& right) {
  BooleanMatrix product(left.rows, right.columns);
  for (size_t r = 0; r < left.rows.size(); ++r) {
    for (size_t k = 0; k < right.rows.size(); ++k) {
      if (!left.at[r][k]) continue;
      for (size_t c = 0; c < right.columns.size(); ++c) product.at[r][c] = product.at[r][c] || right.at[k][c];
    }
  }
  return product;
}

BooleanMatrix transposed(const BooleanMatrix& matrix) {
  BooleanMatrix turned(matrix.columns, matrix.rows);
  for (size_t r = 0; r < matrix.rows.size(); ++r) {
    for (size_t c = 0; c < matrix.columns.size(); ++c) turned.at[c][r] = matrix.at[r][c];
  }
  return turned;
}

std::string print(const BooleanMatrix& matrix) {
  size_t margin = 0;
  for (const std::string& row : matrix.rows) margin = std::max(margin, row.size());
  std::string text(margin, ' ');
  for (const std::string& column : matrix.columns) text += " " + column;
  text += "\n";
  for (size_t r = 0; r < matrix.rows.size(); ++r) {
    absl::StrAppendFormat(&text, "%-*s", static_cast<int>(margin), matrix.rows[r]);
    for (size_t c = 0; c < matrix.columns.size(); ++c) {
      absl::StrAppendFormat(&text, " %*d", static_cast<int>(matrix.columns[c].size()), matrix.at[r][c] ? 1 : 0);
    }
    text += "\n";
  }
  return text;
}

}  // namespace tessera::compiler::intrinsic
