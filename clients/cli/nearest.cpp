#include "clients/cli/nearest.h"

#include <algorithm>

namespace tessera::client {
namespace {

/// Optimal string alignment distance: insertions, deletions, replacements and exchanges of adjacent letters.
size_t distance(std::string_view from, std::string_view to) {
  const size_t width = to.size() + 1;
  std::vector<size_t> cost((from.size() + 1) * width);
  const auto at = [&](size_t row, size_t column) -> size_t& { return cost[row * width + column]; };
  for (size_t row = 0; row <= from.size(); ++row) {
    for (size_t column = 0; column <= to.size(); ++column) {
      if (row == 0 || column == 0) {
        at(row, column) = row + column;
        continue;
      }
      const size_t replaced = at(row - 1, column - 1) + (from[row - 1] == to[column - 1] ? 0 : 1);
      at(row, column) = std::min({replaced, at(row - 1, column) + 1, at(row, column - 1) + 1});
      if (row > 1 && column > 1 && from[row - 1] == to[column - 2] && from[row - 2] == to[column - 1])
        at(row, column) = std::min(at(row, column), at(row - 2, column - 2) + 1);
    }
  }
  return cost.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kMaxWrong = 2;
  constexpr size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return "";
  size_t least = std::min(kMaxWrong, word.size() / 3) + 1;
  std::string found;
  for (const std::string& name : names) {
    const size_t wrong = distance(word, name);
    if (wrong < least) {
      least = wrong;
      found = name;
    } else if (wrong == least) {
      found.clear();
    }
  }
  return found;
}

}  // namespace tessera::client
