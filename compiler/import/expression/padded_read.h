#pragma once

#include <optional>
#include <vector>

#include "compiler/import/expression/bounds.h"
#include "compiler/import/expression/syntax.h"

namespace tessera::compiler::expression {

/// A statement that copies a part of a tensor and surrounds it by a number:
///
///   P[n, y] = y >= 1 && y < 9 ? X[n, y - 1] : 0 where y < 10
struct PaddedRead {
  const Node* read = nullptr;
  double number = 0;
  /// For each dimension: first element of the part, its extent, and elements before and behind it.
  std::vector<int64_t> first = {}, extent = {}, before = {}, behind = {};
};

/// The statement as a padded read. Nothing if it is none: each subscript of the read is the result's variable in the
/// same position plus a constant, and the condition is a conjunction of bounds of single variables that keep the read
/// inside.
std::optional<PaddedRead> paddedRead(const Statement& statement, const std::vector<Loop>& loops,
                                     const std::vector<int64_t>& shape, const Constants& constants);

}  // namespace tessera::compiler::expression
