#pragma once

#include <string>
#include <vector>

namespace tessera::compiler::intrinsic {

/// A matrix over {0, 1} with named rows and columns (thesis, figure 5.3).
struct BooleanMatrix {
  BooleanMatrix(std::vector<std::string> row_names, std::vector<std::string> column_names);

  std::vector<std::string> rows, columns;
  std::vector<std::vector<bool>> at;  ///< [row][column]

  bool operator==(const BooleanMatrix& other) const { return at == other.at; }  // ignores the names
};

/// The boolean product: "or" of "and"s. `left` must have as many columns as `right` has rows.
BooleanMatrix star(const BooleanMatrix& left, const BooleanMatrix& right);
BooleanMatrix transposed(const BooleanMatrix& matrix);

/// The matrix with the names of rows and columns, on several lines.
std::string print(const BooleanMatrix& matrix);

}  // namespace tessera::compiler::intrinsic
