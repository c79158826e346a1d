#include "compiler/artifact/grid_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "compiler/artifact/testing/step_of_rows.h"

namespace tessera::compiler {
namespace {

using compiler::testing::Walk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Cuts = compiler::testing::StepOfRows;

constexpr bool kRead = false, kWritten = true;

TEST_F(Cuts, TilesOfRowsAreCutWhereverTheyAreInTheGrid) {
  // [columns in halves][rows by 6]
  Walk& product = walk(phase(6), {16, 10, 7}, {{1, 5, 2}, {0, 6, 3}});
  touch(product, 0, kRead, {7, 0, 1});
  touch(product, 1, kWritten, {10, 1, 0});
  EXPECT_THAT(grid_bounds(), ElementsAre(GridBound{.count = 3, .inner = 1, .numerator = 1, .denominator = 6}));
}

TEST_F(Cuts, ALoopOverPartsOfRowsIsCutByTheirBytes) {
  Walk& elements = walk(phase(20), {160}, {{0, 8, 20}});
  touch(elements, 0, kRead, {1});
  touch(elements, 1, kWritten, {1});
  EXPECT_THAT(grid_bounds(), ElementsAre(GridBound{.count = 20, .inner = 1, .numerator = 5, .denominator = 4}));
}

TEST_F(Cuts, RowsInTheMiddleAreCutWithinWhatIsOutside) {
  step_.mutable_rows(1)->set_stride(2);  // [5, 16, 2]
  Walk& nest = walk(phase(40), {5, 16, 2}, {{0, 1, 5}, {1, 2, 8}});
  touch(nest, 1, kWritten, {32, 2, 1});
  EXPECT_THAT(grid_bounds(), ElementsAre(GridBound{.count = 8, .inner = 1, .numerator = 1, .denominator = 2}));
}

TEST_F(Cuts, ATemporaryHasTheRowsOfWhatItIsMadeOf) {
  Walk& sums = walk(phase(4), {16, 10}, {{0, 4, 4}});
  touch(sums, 0, kRead, {10, 1});
  touch(sums, -1, kWritten, {1, 0});
  Walk& quotients = walk(phase(16), {16, 10}, {{0, 1, 16}});
  touch(quotients, -1, kRead, {1, 0});
  touch(quotients, 1, kWritten, {10, 1});
  EXPECT_THAT(grid_bounds(),
              ElementsAre(GridBound{.count = 4, .inner = 1, .numerator = 1, .denominator = 4},
                          GridBound{.phase = 1, .count = 16, .inner = 1, .numerator = 1, .denominator = 1}));
}

TEST_F(Cuts, ATemporaryThatIsNoRowsIsComputedAsAWhole) {
  Walk& transposed = walk(phase(10), {16, 10}, {{1, 1, 10}});
  touch(transposed, 0, kRead, {10, 1});
  touch(transposed, -1, kWritten, {1, 16});
  // over rows; cutting it would be wrong, since its result has no rows
  Walk& sum = walk(phase(4), {16, 10}, {{0, 4, 4}});
  touch(sum, 0, kRead, {10, 1});
  touch(sum, -2, kWritten, {0, 1});
  EXPECT_THAT(grid_bounds(), IsEmpty());
}

TEST_F(Cuts, WhatWrapsAroundIsNotCut) {
  Walk& shifted = walk(phase(16), {16, 10}, {{0, 1, 16}});
  touch(shifted, 1, kWritten, {10, 1}, 3);
  EXPECT_THAT(grid_bounds(), IsEmpty());
}

TEST_F(Cuts, BackwardsIsNotCut) {
  Walk& reversed = walk(phase(16), {16, 10}, {{0, 1, 16}});
  touch(reversed, 1, kWritten, {-10, 1}, 150);
  EXPECT_THAT(grid_bounds(), IsEmpty());
}

TEST_F(Cuts, OneResultWithoutRowsKeepsTheStepWhole) {
  kernel_.set_num_results(2);
  plan_.add_buffers()->mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
  step_.add_operands(2);
  Walk& nest = walk(phase(16), {16, 10}, {{0, 1, 16}});
  touch(nest, 1, kWritten, {10, 1});
  EXPECT_THAT(grid_bounds(), IsEmpty());
}

TEST_F(Cuts, NestsSideBySideShareWhatTheCoarsestNeeds) {
  v1::KernelInfo::Phase& both = phase(16);
  Walk& fine = walk(both, {16, 10}, {{0, 1, 16}});
  touch(fine, 1, kWritten, {10, 1});
  Walk& coarse = walk(both, {16, 10}, {{0, 8, 2}});
  touch(coarse, 0, kRead, {10, 1});
  touch(coarse, -1, kWritten, {10, 1});
  const std::vector<GridBound> found = grid_bounds();
  ASSERT_EQ(found.size(), 1U);
  // For every count, the remaining part of the grid contains the rows of both.
  for (int64_t n = 1; n <= 16; ++n) {
    const int64_t cells = std::min(
        found[0].count, (n * found[0].numerator + found[0].denominator - 1) / found[0].denominator + found[0].slack);
    EXPECT_GE(cells, n);
    EXPECT_GE(cells * 2 / 16 * 8, n);
  }
}

TEST_F(Cuts, RowsOfAWindowFollowTheirOwnCount) {
  // 8 rows of 20 bytes for the 16 rows of the range, and two more for a window: cut by pairs, by rows and by quarters
  // of a row.
  step_.mutable_rows(1)->set_stride(20);
  step_.mutable_rows(1)->set_count(8);
  step_.mutable_rows(1)->set_slack(2);
  for (const auto& [extents, strides, step] : {std::tuple(std::vector<int64_t>{8, 20}, std::vector<int64_t>{20, 1}, 2),
                                               std::tuple(std::vector<int64_t>{8, 20}, std::vector<int64_t>{20, 1}, 1),
                                               std::tuple(std::vector<int64_t>{160}, std::vector<int64_t>{1}, 5)}) {
    kernel_.clear_phases();
    Walk& nest = walk(phase(extents[0] / step), extents, {{0, step, extents[0] / step}});
    touch(nest, 1, kWritten, strides);
    const std::vector<GridBound> found = grid_bounds();
    ASSERT_EQ(found.size(), 1U);
    for (int64_t n = 0; n <= 16; ++n) {
      const int64_t steps = std::min(
          found[0].count, (n * found[0].numerator + found[0].denominator - 1) / found[0].denominator + found[0].slack);
      const int64_t rows = std::min<int64_t>((n + 1) / 2 + 2, 8), computed = steps * step * strides[0] / 20;
      EXPECT_GE(computed, rows) << "of " << n;
      EXPECT_LE(computed, std::min<int64_t>(rows + 2, 8)) << "of " << n;
    }
  }
}

TEST_F(Cuts, PartsOfAResultSideBySideAreCutByWhatEachHas) {
  // The first 4 rows of 16 by one nest, the others by another: a run of 4 rows needs all of the first nest.
  v1::KernelInfo::Phase& both = phase(16);
  Walk& front = walk(both, {4, 10}, {{0, 1, 4}});
  touch(front, 1, kWritten, {10, 1});
  Walk& all = walk(both, {16, 10}, {{0, 1, 16}});
  touch(all, 1, kWritten, {10, 1});
  for (const GridBound& bound : grid_bounds()) {
    const int64_t cells =
        std::min(bound.count, (4 * bound.numerator + bound.denominator - 1) / bound.denominator + bound.slack);
    EXPECT_EQ(cells, 16);
  }
}

TEST_F(Cuts, TwoRangesCutTwoLevels) {
  v1::DimensionBinding& dimension = *plan_.add_dimensions();
  dimension.set_name("M");
  dimension.set_size(-5);
  for (int operand = 0; operand < 2; ++operand) {
    v1::Step::Rows& entry = *step_.add_rows();
    entry.set_operand(operand);
    entry.add_dimensions(1);
    entry.set_stride(2);  // [16, 5, 2]
  }
  Walk& nest = walk(phase(80), {16, 5, 2}, {{0, 1, 16}, {1, 1, 5}});
  touch(nest, 0, kRead, {10, 2, 1});
  touch(nest, 1, kWritten, {10, 2, 1});
  EXPECT_THAT(grid_bounds(),
              ElementsAre(GridBound{.count = 16, .inner = 5, .numerator = 1, .denominator = 1},
                          GridBound{.ranges = 2, .count = 5, .inner = 1, .numerator = 1, .denominator = 1}));
}

TEST_F(Cuts, RowsOfTwoRangesAreCutByTheirProduct) {
  v1::DimensionBinding& dimension = *plan_.add_dimensions();
  dimension.set_name("M");
  dimension.set_size(-5);
  for (v1::Step::Rows& rows : *step_.mutable_rows()) {  // [80, 2], 16 x 5 of them
    rows.add_dimensions(1);                             // in addition to 0
    rows.set_stride(2);
    rows.set_count(80);
    rows.set_slack(7);
  }
  Walk& nest = walk(phase(20), {80, 2}, {{0, 4, 20}});
  touch(nest, 0, kRead, {2, 1});
  touch(nest, 1, kWritten, {2, 1});
  EXPECT_THAT(grid_bounds(), ElementsAre(GridBound{
                                 .ranges = 3, .count = 20, .inner = 1, .numerator = 1, .denominator = 4, .slack = 2}));
}

}  // namespace
}  // namespace tessera::compiler
