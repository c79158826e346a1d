#include "compiler/graph/analysis/used_parts.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <utility>

#include "compiler/ir/multi_range_bounds.h"

namespace tessera::compiler {
namespace {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::RankedTensorType;

constexpr int64_t kMaxElements = int64_t{1} << 40;  // over several ranges together
constexpr int64_t kMaxSteps = 4096;                 // for rows mapped by translated()
constexpr int64_t kMaxCells = 1 << 15;              // of a table over the sizes of several ranges

int rangeOf(const UsedRows& rows) { return std::countr_zero(rows.ranges); }

int64_t ceilDiv(__int128 a, int64_t b) { return static_cast<int64_t>((a + b - 1) / b); }

/// Returns the number of rows that a run of size n needs, for one range.
int64_t neededAt(const UsedRows& rows, int64_t n) { return rows.needed ? (*rows.needed)[static_cast<size_t>(n)] : n; }

bool areOfOneKind(const UsedRows& a, const UsedRows& b) {
  return a.ranges == b.ranges && a.stride == b.stride && a.count == b.count;
}

/// Adds `expression` times `by` to the factors of loops. Returns false unless it is a sum of loops with positive
/// factors.
bool addTerms(mlir::AffineExpr expression, int64_t by, SmallVector<int64_t>& factors, int64_t& offset) {
  if (auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) {
    factors[loop.getPosition()] += by;
    return true;
  }
  if (auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expression)) {
    offset += by * constant.getValue();
    return true;
  }
  auto binary = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  if (!binary) return false;
  if (binary.getKind() == mlir::AffineExprKind::Add)
    return addTerms(binary.getLHS(), by, factors, offset) && addTerms(binary.getRHS(), by, factors, offset);
  auto factor = mlir::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
  return binary.getKind() == mlir::AffineExprKind::Mul && factor && factor.getValue() >= 0 &&
         addTerms(binary.getLHS(), by * factor.getValue(), factors, offset);
}

}  // namespace

int64_t elementStride(RankedTensorType type, int64_t dim) {
  int64_t elements = 1;
  for (int64_t d = dim + 1; d < type.getRank(); ++d) elements *= type.getDimSize(d);
  return elements;
}

std::optional<UsedRows> UsedPartBuilder::rowsBySize(int dimension, int64_t count,
                                                    llvm::function_ref<int64_t(int64_t)> of) const {
  const int64_t most = series_.most(dimension);
  if (most > ExtentFunctions::kLongest) return std::nullopt;
  auto needed = std::make_shared<std::vector<int64_t>>();
  // A range whose runs all need all rows says nothing.
  bool identity = count == most, all = true;
  for (int64_t n = 0; n <= most; ++n) {
    needed->push_back(std::clamp<int64_t>(of(n), 0, count));
    identity &= needed->back() == n;
    all &= needed->back() == count;
  }
  if (all) return std::nullopt;
  UsedRows rows{.ranges = uint32_t{1} << dimension, .count = count};
  if (!identity) rows.needed = std::move(needed);
  return rows;
}

int64_t UsedPartBuilder::most(uint32_t ranges) const {
  int64_t most = 1;
  for (int d = 0; d < series_.dimensions(); ++d)
    if ((ranges >> d & 1) != 0) most = std::min(most, kMaxElements) * series_.most(d);
  return most;
}

/// Computes the slack: the most rows that any run needs beyond its proportional part. Sizes are examined in cells of
/// several sizes: the need of a cell's largest sizes against the elements of its smallest.
std::optional<UsedRows> UsedPartBuilder::bySum(const ExtentFunction& series, int64_t count) const {
  UsedRows rows{.ranges = 0, .count = count};
  for (const RangeTerm& product : series.sum)
    for (const auto& [dimension, factor] : product.factors) rows.ranges |= uint32_t{1} << dimension;
  if (rows.ranges == 0) return std::nullopt;
  if (rows.isOfOne()) {
    const int dimension = rangeOf(rows);
    return rowsBySize(dimension, count, [&](int64_t n) { return sumAt(series, {{dimension, n}}); });
  }
  const int64_t all = most(rows.ranges);
  if (all > kMaxElements) return std::nullopt;
  // Makes every factor ascending, so that the largest sizes of a cell have its greatest need.
  ExtentFunction ascending = series;
  for (RangeTerm& product : ascending.sum)
    for (auto& [dimension, factor] : product.factors)
      for (size_t n = 1; n < factor.size(); ++n) factor[n] = std::max(factor[n], factor[n - 1]);
  // The shortest ranges get their cells first; the others share the remaining ones.
  SmallVector<std::pair<int64_t, int>> ordered;
  for (int d = 0; d < series_.dimensions(); ++d)
    if ((rows.ranges >> d & 1) != 0) ordered.push_back({series_.most(d), d});
  llvm::sort(ordered);
  std::map<int, int64_t> step, from, to;
  int64_t cells = kMaxCells;
  for (size_t i = 0; i < ordered.size(); ++i) {
    int64_t points = 1;
    // How many cells the remaining ranges would have with this many points each.
    const auto power = [&](int64_t base) {
      int64_t result = 1;
      for (size_t k = i; k < ordered.size() && result <= cells; ++k) result *= base;
      return result;
    };
    while (points < ordered[i].first && power(points + 1) <= cells) ++points;
    cells /= points;
    step[ordered[i].second] = (ordered[i].first + points - 1) / points;
  }
  const std::function<void(size_t, int64_t)> visit = [&](size_t i, int64_t elements) {
    if (i == ordered.size()) {
      const int64_t needed = std::min(sumAt(ascending, to), count);
      rows.slack = std::max(rows.slack, needed - ceilDiv(__int128{elements} * count, all));
      return;
    }
    const auto [length, dimension] = ordered[i];
    // Size 0 is a cell of its own, because nothing is needed there.
    to[dimension] = 0;
    visit(i + 1, 0);
    for (int64_t first = 1; first <= length; first += step[dimension]) {
      to[dimension] = std::min(first + step[dimension] - 1, length);
      visit(i + 1, elements * first);
    }
  };
  visit(0, 1);
  return rows.slack < count ? std::optional(rows) : std::nullopt;
}

std::optional<UsedRows> UsedPartBuilder::firstRowsOfEveryRun(int64_t count, int64_t first) {
  if (first >= count) return std::nullopt;
  return UsedRows{.ranges = 0, .count = count, .slack = std::max<int64_t>(first, 0)};
}

std::optional<UsedRows> UsedPartBuilder::translated(const UsedRows& rows, int64_t count,
                                                    llvm::function_ref<int64_t(int64_t)> of) const {
  // With one range the need of each size is known exactly.
  if (rows.isOfOne()) return rowsBySize(rangeOf(rows), count, [&](int64_t n) { return of(neededAt(rows, n)); });
  if (rows.ranges == 0) return firstRowsOfEveryRun(count, of(rows.slack));
  const int64_t all = most(rows.ranges), step = (rows.count + kMaxSteps - 1) / kMaxSteps;
  UsedRows result{.ranges = rows.ranges, .count = count, .slack = std::clamp<int64_t>(of(0), 0, count)};
  for (int64_t r = 1; r <= rows.count; r += step) {
    // The smallest run that needs row r.
    const int64_t less = r - rows.slack - 1;
    const int64_t least = less < 0 ? 0 : static_cast<int64_t>(__int128{less} * all / rows.count) + 1;
    const int64_t needed = std::min(of(std::min(r + step - 1, rows.count)), count);
    result.slack = std::max(result.slack, needed - ceilDiv(__int128{least} * count, all));
  }
  return result.slack < count ? std::optional(result) : std::nullopt;
}

std::optional<UsedRows> UsedPartBuilder::rowsByExtent(const ExtentFunction& series, int64_t count) const {
  if (!series.sum.empty()) return bySum(series, count);
  if (series.dimension < 0) return std::nullopt;
  if (!series.at.empty())
    return rowsBySize(series.dimension, count, [&](int64_t n) { return series.at[static_cast<size_t>(n)]; });
  if (count != series_.most(series.dimension)) return std::nullopt;
  return UsedRows{.ranges = uint32_t{1} << series.dimension, .count = count};
}

std::optional<UsedRows> UsedPartBuilder::unionOf(const UsedRows& a, const UsedRows& b) const {
  if (a.ranges == b.ranges) return combined(a, b, /*greatest=*/true);
  // One of them is the same in every run, since ranges that differ never meet.
  const UsedRows &fixed = a.ranges == 0 ? a : b, &rows = a.ranges == 0 ? b : a;
  UsedRows both = rows;
  if (rows.isOfOne()) {
    // A run is not empty, so its needs never conflict with a fixed number of rows.
    auto more = rowsBySize(rangeOf(rows), rows.count, [&](int64_t n) {
      return n == 0 ? neededAt(rows, n) : std::max(neededAt(rows, n), fixed.slack);
    });
    if (!more) return std::nullopt;
    both.needed = more->needed;
  } else {
    both.slack = std::max(rows.slack, fixed.slack);
  }
  return both;
}

std::optional<UsedRows> UsedPartBuilder::combined(const UsedRows& a, const UsedRows& b, bool greatest) const {
  if (!a.isOfOne()) {
    UsedRows both = a;
    both.slack = greatest ? std::max(a.slack, b.slack) : std::min(a.slack, b.slack);
    return both;
  }
  // Equal tables share their memory.
  if (a.needed == b.needed) return a;
  auto both = rowsBySize(rangeOf(a), a.count, [&](int64_t n) {
    const int64_t x = neededAt(a, n), y = neededAt(b, n);
    return greatest ? std::max(x, y) : std::min(x, y);
  });
  if (both) both->stride = a.stride;
  return both;
}

UsedParts UsedPartBuilder::unionOf(ArrayRef<UsedPart> a, ArrayRef<UsedPart> b) const {
  UsedParts result;
  for (const UsedPart& part : a) {
    // Parts meet only at the same place with the same number of rows.
    const auto* other = llvm::find_if(b, [&](const UsedPart& each) {
      return each.position == part.position && each.iterations_per_row == part.iterations_per_row &&
             haveUnion(each.rows, part.rows);
    });
    if (other == b.end()) continue;
    if (auto both = unionOf(part.rows, other->rows))
      result.push_back({part.position, part.iterations_per_row, *std::move(both)});
  }
  return result;
}

void UsedPartBuilder::addBound(UsedRowsList& entries, UsedRows rows) const {
  for (UsedRows& known : entries) {
    if (!areOfOneKind(known, rows)) continue;
    // Several bounds hold at once, so the smaller one counts.
    if (auto both = combined(known, rows, /*greatest=*/false)) known = *std::move(both);
    return;
  }
  entries.push_back(std::move(rows));
}

std::optional<UsedPart> UsedPartBuilder::partOf(RankedTensorType type, const UsedRows& rows) const {
  for (int64_t d = 0; d < type.getRank(); ++d) {
    const int64_t inside = elementStride(type, d), size = type.getDimSize(d);
    if (size < 2) continue;
    UsedPart part{d, 1, rows};
    // Rows are whole steps of this dimension, or several of them.
    if (rows.stride % inside == 0) {
      part.iterations_per_row = rows.stride / inside;
      if (size % (part.iterations_per_row * rows.count) != 0) continue;
    } else if (inside % rows.stride == 0 && size * inside == rows.count * rows.stride) {
      // A step of this dimension has several rows: rounds up to whole steps.
      const int64_t whole = inside / rows.stride;  // rows in one step along the dimension
      auto coarse = translated(rows, size, [&](int64_t needed) { return (needed + whole - 1) / whole; });
      if (!coarse) continue;
      part.rows = *std::move(coarse);
    } else {
      continue;
    }
    part.rows.stride = 1;
    return part;
  }
  return std::nullopt;
}

UsedParts UsedPartBuilder::partsOf(RankedTensorType type, ArrayRef<UsedRows> entries) const {
  UsedParts parts;
  for (const UsedRows& rows : entries)
    if (auto part = partOf(type, rows)) parts.push_back(*std::move(part));
  return parts;
}

void UsedPartBuilder::addPart(UsedRowsList& entries, RankedTensorType type, int64_t dim, const UsedPart& part) const {
  // A part that does not divide the dimension leaves a rest without owner.
  if (type.getDimSize(dim) % (part.iterations_per_row * part.rows.count) != 0) return;
  UsedRows rows = part.rows;
  rows.stride = part.iterations_per_row * elementStride(type, dim);
  addBound(entries, std::move(rows));
}

void UsedPartBuilder::addAlong(UsedRowsList& entries, RankedTensorType type, int64_t dim, mlir::AffineExpr expression,
                               ArrayRef<UsedPart> parts, ArrayRef<int64_t> extents) const {
  if (auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) {
    // The loop must cover the dimension, else the part belongs to something else.
    if (extents[loop.getPosition()] != type.getDimSize(dim)) return;
    for (const UsedPart& part : parts)
      if (part.position == loop.getPosition()) addPart(entries, type, dim, part);
    return;
  }
  SmallVector<int64_t> factors(extents.size(), 0);
  int64_t offset = 0;
  // For sums of loops, as in windows: the greatest position that needed iterations reach.
  if (!addTerms(expression, 1, factors, offset)) return;
  SmallVector<uint32_t> of_ranges;
  for (const UsedPart& part : parts)
    if (!llvm::is_contained(of_ranges, part.rows.ranges)) of_ranges.push_back(part.rows.ranges);
  for (const uint32_t ranges : of_ranges) {
    SmallVector<const UsedPart*> of_loops(extents.size(), nullptr);
    const UsedPart* first = nullptr;
    for (const UsedPart& part : parts) {
      const auto loop = static_cast<size_t>(part.position);
      if (part.rows.ranges != ranges || factors[loop] == 0 || !isPrefix(part, extents[loop])) continue;
      if (first && !part.rows.isOfOne()) continue;  // rows of several ranges: bounded by one loop only
      of_loops[loop] = &part;
      first = &part;
    }
    if (!first) continue;
    // One past the last element that needed iterations read.
    const auto lastOf = [&](llvm::function_ref<int64_t(const UsedPart&)> needed) {
      int64_t last = offset;
      for (size_t loop = 0; loop < extents.size(); ++loop) {
        if (factors[loop] == 0) continue;
        const int64_t steps = of_loops[loop] ? needed(*of_loops[loop]) : extents[loop];
        // Without iterations nothing is read.
        if (steps == 0) return int64_t{0};
        last += factors[loop] * (steps - 1);
      }
      return last + 1;
    };
    const int64_t size = type.getDimSize(dim);
    auto rows =
        first->rows.isOfOne()
            ? rowsBySize(
                  rangeOf(first->rows), size,
                  [&](int64_t n) { return lastOf([&](const UsedPart& part) { return neededAt(part.rows, n); }); })
            : translated(first->rows, size, [&](int64_t r) { return lastOf([&](const UsedPart&) { return r; }); });
    if (!rows) continue;
    rows->stride = elementStride(type, dim);
    addBound(entries, *std::move(rows));
  }
}

void UsedPartBuilder::addTranslated(UsedRowsList& entries, RankedTensorType type, int64_t dim, const UsedPart& part,
                                    llvm::function_ref<int64_t(int64_t)> of) const {
  auto rows = translated(part.rows, type.getDimSize(dim), of);
  if (!rows) return;
  rows->stride = elementStride(type, dim);
  addBound(entries, *std::move(rows));
}

}  // namespace tessera::compiler
