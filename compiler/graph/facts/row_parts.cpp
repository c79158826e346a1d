#include "compiler/graph/facts/row_parts.h"

#include <algorithm>
#include <utility>

namespace tessera::compiler {
namespace {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::RankedTensorType;

/// Rows that a run of n needs.
int64_t neededAt(const Rows& rows, int64_t n) { return rows.needed ? (*rows.needed)[static_cast<size_t>(n)] : n; }

bool areOfOneKind(const Rows& a, const Rows& b) {
  return a.dimension == b.dimension && a.stride == b.stride && a.count == b.count;
}

/// Adds `expression` times `by` to the factors of loops; false unless it is a sum of products with positive numbers.
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

int64_t elementsBelow(RankedTensorType type, int64_t dim) {
  int64_t elements = 1;
  for (int64_t d = dim + 1; d < type.getRank(); ++d) elements *= type.getDimSize(d);
  return elements;
}

std::optional<Rows> RowParts::by(int dimension, int64_t count, llvm::function_ref<int64_t(int64_t)> of) const {
  const int64_t most = series_.most(dimension);
  if (most > ExtentSeries::kLongest) return std::nullopt;
  auto needed = std::make_shared<std::vector<int64_t>>();
  bool identity = count == most, all = true;
  for (int64_t n = 0; n <= most; ++n) {
    needed->push_back(std::clamp<int64_t>(of(n), 0, count));
    identity &= needed->back() == n;
    all &= needed->back() == count;
  }
  if (all) return std::nullopt;
  Rows rows{.dimension = dimension, .count = count};
  if (!identity) rows.needed = std::move(needed);
  return rows;
}

std::optional<Rows> RowParts::of(const Series& series, int64_t count) const {
  if (series.dimension < 0) return std::nullopt;
  if (!series.at.empty())
    return by(series.dimension, count, [&](int64_t n) { return series.at[static_cast<size_t>(n)]; });
  if (count != series_.most(series.dimension)) return std::nullopt;
  return Rows{.dimension = series.dimension, .count = count};
}

std::optional<Rows> RowParts::combined(const Rows& a, const Rows& b, bool greatest) const {
  if (a.needed == b.needed) return a;
  auto both = by(a.dimension, a.count, [&](int64_t n) {
    const int64_t x = neededAt(a, n), y = neededAt(b, n);
    return greatest ? std::max(x, y) : std::min(x, y);
  });
  if (both) both->stride = a.stride;
  return both;
}

Parts RowParts::either(ArrayRef<Part> a, ArrayRef<Part> b) const {
  Parts result;
  for (const Part& part : a) {
    const auto* other = llvm::find_if(b, [&](const Part& each) {
      return each.place == part.place && each.per == part.per && areOfOneKind(each.rows, part.rows);
    });
    if (other == b.end()) continue;
    if (auto both = either(part.rows, other->rows)) result.push_back({part.place, part.per, *std::move(both)});
  }
  return result;
}

void RowParts::add(RowEntries& entries, Rows rows) const {
  for (Rows& known : entries) {
    if (!areOfOneKind(known, rows)) continue;
    if (auto both = combined(known, rows, /*greatest=*/false)) known = *std::move(both);
    return;
  }
  entries.push_back(std::move(rows));
}

std::optional<Part> RowParts::of(RankedTensorType type, const Rows& rows) const {
  for (int64_t d = 0; d < type.getRank(); ++d) {
    const int64_t inside = elementsBelow(type, d), size = type.getDimSize(d);
    if (size < 2) continue;
    Part part{d, 1, rows};
    if (rows.stride % inside == 0) {
      part.per = rows.stride / inside;
      if (size % (part.per * rows.count) != 0) continue;
    } else if (inside % rows.stride == 0 && size * inside == rows.count * rows.stride) {
      const int64_t whole = inside / rows.stride;  // rows of one step along the dimension
      auto coarse = by(rows.dimension, size, [&](int64_t n) { return (neededAt(rows, n) + whole - 1) / whole; });
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

Parts RowParts::of(RankedTensorType type, ArrayRef<Rows> entries) const {
  Parts parts;
  for (const Rows& rows : entries)
    if (auto part = of(type, rows)) parts.push_back(*std::move(part));
  return parts;
}

void RowParts::addPart(RowEntries& entries, RankedTensorType type, int64_t dim, const Part& part) const {
  if (type.getDimSize(dim) % (part.per * part.rows.count) != 0) return;
  Rows rows = part.rows;
  rows.stride = part.per * elementsBelow(type, dim);
  add(entries, std::move(rows));
}

void RowParts::addAlong(RowEntries& entries, RankedTensorType type, int64_t dim, mlir::AffineExpr expression,
                        ArrayRef<Part> parts, ArrayRef<int64_t> extents) const {
  if (auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) {
    if (extents[loop.getPosition()] != type.getDimSize(dim)) return;
    for (const Part& part : parts)
      if (part.place == loop.getPosition()) addPart(entries, type, dim, part);
    return;
  }
  SmallVector<int64_t> factors(extents.size(), 0);
  int64_t offset = 0;
  if (!addTerms(expression, 1, factors, offset)) return;
  for (int dimension = 0; dimension < series_.dimensions(); ++dimension) {
    SmallVector<const Part*> of_loops(extents.size(), nullptr);
    bool any = false;
    for (const Part& part : parts) {
      const auto loop = static_cast<size_t>(part.place);
      if (part.rows.dimension != dimension || factors[loop] == 0 || !isPrefix(part, extents[loop])) continue;
      of_loops[loop] = &part;
      any = true;
    }
    if (!any) continue;
    // One behind the farthest element that iterations which are needed read.
    auto rows = by(dimension, type.getDimSize(dim), [&](int64_t n) {
      int64_t last = offset;
      for (size_t loop = 0; loop < extents.size(); ++loop) {
        if (factors[loop] == 0) continue;
        const int64_t steps = of_loops[loop] ? neededAt(of_loops[loop]->rows, n) : extents[loop];
        if (steps == 0) return int64_t{0};
        last += factors[loop] * (steps - 1);
      }
      return last + 1;
    });
    if (!rows) continue;
    rows->stride = elementsBelow(type, dim);
    add(entries, *std::move(rows));
  }
}

void RowParts::addMoved(RowEntries& entries, RankedTensorType type, int64_t dim, const Part& part,
                        llvm::function_ref<int64_t(int64_t)> of) const {
  auto rows = by(part.rows.dimension, type.getDimSize(dim), [&](int64_t n) { return of(neededAt(part.rows, n)); });
  if (!rows) return;
  rows->stride = elementsBelow(type, dim);
  add(entries, *std::move(rows));
}

}  // namespace tessera::compiler
