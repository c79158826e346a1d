#include "compiler/import/expression/padded_read.h"

#include <algorithm>
#include <cstdlib>

namespace tessera::compiler::expression {
namespace {

/// Numbers of a text can be large; sums of some below this cannot overflow.
constexpr int64_t kLargest = int64_t{1} << 40;

bool isAddable(int64_t value) { return value > -kLargest && value < kLargest; }

/// low <= variable < high, for each variable of the result.
using Box = std::vector<std::pair<int64_t, int64_t>>;

/// The position of the only variable of a sum with factor 1 or -1; -1 for other sums.
int onlyVariable(const Subscript& sum, const std::vector<std::string>& indices) {
  if (!sum.linear || sum.factors.size() != 1 || std::abs(sum.factors.begin()->second) != 1) return -1;
  const auto found = std::ranges::find(indices, sum.factors.begin()->first);
  return found == indices.end() ? -1 : static_cast<int>(found - indices.begin());
}

/// Narrows the box by a condition; false if it is no conjunction of bounds.
bool narrow(const Node& condition, const std::vector<std::string>& indices, const Constants& constants, Box& box) {
  if (condition.kind != Kind::kBinary) return false;
  if (condition.name == "&&")
    return std::ranges::all_of(condition.children,
                               [&](const NodePtr& child) { return narrow(*child, indices, constants, box); });
  const std::string& op = condition.name;
  if (op != "<" && op != "<=" && op != ">" && op != ">=" && op != "==") return false;
  const auto left = analyse(*condition.children[0], constants), right = analyse(*condition.children[1], constants);
  if (!left.ok() || !right.ok() || !right->linear || !right->factors.empty() || !isAddable(left->offset) ||
      !isAddable(right->offset))
    return false;
  const int position = onlyVariable(*left, indices);
  if (position < 0) return false;
  // factor * variable + offset, compared with a limit.
  const bool rises = left->factors.begin()->second > 0;
  const int64_t limit = rises ? right->offset - left->offset : left->offset - right->offset;
  auto& [low, high] = box[static_cast<size_t>(position)];
  const bool strict = op == "<" || op == ">";
  const bool bounds_above = op == "==" || (op[0] == '<') == rises, bounds_below = op == "==" || (op[0] == '>') == rises;
  if (bounds_above) high = std::min(high, strict ? limit : limit + 1);
  if (bounds_below) low = std::max(low, strict ? limit + 1 : limit);
  return true;
}

}  // namespace

std::optional<PaddedRead> paddedRead(const Statement& statement, const std::vector<Loop>& loops,
                                     const std::vector<int64_t>& shape, const Constants& constants) {
  const Node& value = *statement.value;
  if (statement.accumulation != Accumulation::kNone || value.kind != Kind::kCondition || loops.size() != shape.size())
    return std::nullopt;
  const Node &read = *value.children[1], &other = *value.children[2];
  if (read.kind != Kind::kAccess || other.kind != Kind::kNumber) return std::nullopt;
  Box box;
  for (const Loop& loop : loops) box.emplace_back(0, loop.extent);
  if (!narrow(*value.children[0], statement.indices, constants, box)) return std::nullopt;
  PaddedRead padded{.read = &read, .number = other.number};
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto subscript = analyse(*read.children[d], constants);
    if (!subscript.ok() || onlyVariable(*subscript, statement.indices) != static_cast<int>(d) ||
        subscript->factors.begin()->second != 1 || !isAddable(subscript->offset))
      return std::nullopt;
    const auto [low, high] = box[d];
    if (low >= high || low + subscript->offset < 0 || high + subscript->offset > shape[d]) return std::nullopt;
    padded.first.push_back(low + subscript->offset);
    padded.extent.push_back(high - low);
    padded.before.push_back(low);
    padded.behind.push_back(loops[d].extent - high);
  }
  const auto pads = [](int64_t elements) { return elements > 0; };
  if (std::ranges::none_of(padded.before, pads) && std::ranges::none_of(padded.behind, pads)) return std::nullopt;
  return padded;
}

}  // namespace tessera::compiler::expression
