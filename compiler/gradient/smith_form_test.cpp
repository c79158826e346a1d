#include "compiler/gradient/smith_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/gradient/preimage.h"

namespace tessera::compiler::gradient {
namespace {

using ::testing::ElementsAre;

IntegerMatrix product(const IntegerMatrix& left, const IntegerMatrix& right, size_t columns) {
  IntegerMatrix result(left.size(), std::vector<int64_t>(columns, 0));
  for (size_t r = 0; r < left.size(); ++r)
    for (size_t k = 0; k < right.size(); ++k)
      for (size_t c = 0; c < columns; ++c) result[r][c] += left[r][k] * right[k][c];
  return result;
}

/// By expansion along the first row.
int64_t determinant(const IntegerMatrix& matrix) {
  if (matrix.empty()) return 1;
  int64_t sum = 0;
  for (size_t c = 0; c < matrix.size(); ++c) {
    IntegerMatrix minor(matrix.begin() + 1, matrix.end());
    for (std::vector<int64_t>& row : minor) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
    sum += (c % 2 == 0 ? 1 : -1) * matrix[0][c] * determinant(minor);
  }
  return sum;
}

TEST(SmithForm, DiagonalizesByUnimodularMatrices) {
  std::mt19937_64 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 200; ++round) {
    const auto rows = static_cast<size_t>(pick(1, 4)), columns = static_cast<size_t>(pick(1, 5));
    IntegerMatrix matrix(rows, std::vector<int64_t>(columns, 0));
    for (std::vector<int64_t>& row : matrix)
      for (int64_t& entry : row) entry = pick(0, 2) == 0 ? 0 : pick(-4, 4);
    const auto form = smithForm(matrix, columns);
    ASSERT_TRUE(form.ok()) << form.status();
    EXPECT_EQ(std::abs(determinant(form->left)), 1);
    EXPECT_EQ(std::abs(determinant(form->right)), 1);
    const IntegerMatrix diagonal = product(product(form->left, matrix, columns), form->right, columns);
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c)
        EXPECT_EQ(diagonal[r][c], r == c && r < form->diagonal.size() ? form->diagonal[r] : 0);
  }
}

TEST(SmithForm, RefusesWhatExceeds64Bits) {
  const int64_t large = int64_t{1} << 62;
  EXPECT_TRUE(absl::IsOutOfRange(smithForm({{large - 1, large - 3}, {large - 7, -large}}, 2).status()));
}

TEST(SmithForm, ReducesARowToItsDivisor) {
  IntegerMatrix matrix{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {9, 4, -6}};
  const auto divisor = reduceRow(matrix, 3, 1);
  ASSERT_TRUE(divisor.ok());
  EXPECT_EQ(*divisor, 2);
  EXPECT_THAT(matrix[3], ElementsAre(9, 2, 0));
}

/// All values of an index sum of loops, quotients and remainders at one point of the loops.
int64_t valueOf(const IndexSpace& space, const IndexSum& sum, const std::vector<int64_t>& loops) {
  int64_t value = sum.constant;
  for (const auto& [position, factor] : sum.terms) {
    const IndexSpace::Atom& atom = space.atom(position);
    if (atom.kind == IndexSpace::AtomKind::kLoop) {
      value += factor * loops[static_cast<size_t>(position)];
      continue;
    }
    const int64_t dividend = valueOf(space, atom.dividend, loops);
    const int64_t rest = (dividend % atom.divisor + atom.divisor) % atom.divisor;
    value += factor * (atom.kind == IndexSpace::AtomKind::kRemainder ? rest : (dividend - rest) / atom.divisor);
  }
  return value;
}

TEST(Preimage, HasEveryIterationOnceAndFewOthers) {
  // z = 2 p + r with 5 positions and 3 taps: at most two taps reach an element.
  IndexSpace statement, gradient;
  const IndexSum p = statement.addLoop("p", 5), r = statement.addLoop("r", 3), z = gradient.addLoop("z", 11);
  const auto found = preimageOf(statement, {{statement.plus(r, p, 2), z}}, {}, gradient);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->free_loops.size(), 1U);
  const IndexSpace::Atom& loop = gradient.atom(found->free_loops[0]);
  EXPECT_EQ(loop.range.high, 1);
  for (int64_t element = 0; element < 11; ++element) {
    std::set<std::pair<int64_t, int64_t>> reads, wanted;
    for (int64_t position = 0; position < 5; ++position)
      for (int64_t tap = 0; tap < 3; ++tap)
        if (2 * position + tap == element) wanted.insert({position, tap});
    for (int64_t free = 0; free <= loop.range.high; ++free) {
      std::vector<int64_t> point(gradient.atoms().size(), 0);
      point[0] = element;
      point[static_cast<size_t>(found->free_loops[0])] = free;
      bool exists = true;
      for (const IndexBound& guard : found->guards) {
        const int64_t value = valueOf(gradient, guard.sum, point);
        exists = exists && value >= guard.low && value <= guard.high;
      }
      if (!exists) continue;
      EXPECT_TRUE(
          reads.insert({valueOf(gradient, found->atoms[0], point), valueOf(gradient, found->atoms[1], point)}).second);
    }
    EXPECT_EQ(reads, wanted) << "element " << element;
  }
}

}  // namespace
}  // namespace tessera::compiler::gradient
