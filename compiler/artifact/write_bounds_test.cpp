#include "compiler/artifact/write_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/artifact/testing/step_of_rows.h"

namespace tessera::compiler {
namespace {

using compiler::testing::Walk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Reaches : public compiler::testing::StepOfRows {
 protected:
  static void write(Walk& walk, int buffer, const std::vector<int64_t>& strides, int64_t offset = 0) {
    touch(walk, buffer, /*written=*/true, strides, offset);
  }
  std::vector<WriteBound> write_bounds() const { return writeBoundsOf(plan_, step_, kernel_, grid_bounds()); }
  /// Bytes that a run of n rows writes.
  int64_t written(int64_t n) const {
    const std::vector<GridBound> all = grid_bounds();
    int64_t end = 0;
    for (const WriteBound& bound : writeBoundsOf(plan_, step_, kernel_, all)) {
      int64_t own = bound.base;
      for (const WriteBound::Term& term : bound.terms) {
        const GridBound& grid = all[static_cast<size_t>(term.grid_bound)];
        const int64_t k =
            std::min(grid.count, (n * grid.numerator + grid.denominator - 1) / grid.denominator + grid.slack);
        own += std::min(term.most, term.bytes * ((k * term.numerator + term.denominator - 1) / term.denominator));
      }
      end = std::max(end, own);
    }
    return end;
  }
};

TEST_F(Reaches, TilesOfRowsReachAsFarAsTheirLastRow) {
  // [columns in halves][rows by 6], the last tile of 4
  write(walk(phase(6), {16, 10, 7}, {{1, 5, 2}, {0, 6, 3}}), 1, {10, 1, 0});
  EXPECT_THAT(write_bounds(), ElementsAre(WriteBound{
                                  .operand = 1, .base = 0, .terms = {{.grid_bound = 0, .bytes = 240, .most = 640}}}));
  EXPECT_EQ(written(1), 240);
  EXPECT_EQ(written(7), 480);
  EXPECT_EQ(written(13), 640);
}

TEST_F(Reaches, RowsInTheMiddleReachIntoTheLastOfWhatIsOutside) {
  for (v1::Step::Rows& rows : *step_.mutable_rows()) rows.set_stride(2);  // [5, 16, 2]
  write(walk(phase(40), {5, 16, 2}, {{0, 1, 5}, {1, 2, 8}}), 1, {32, 2, 1});
  EXPECT_EQ(written(1), 4 * 32 * 4 + 2 * 2 * 4);
  EXPECT_EQ(written(16), 640);
}

TEST_F(Reaches, NestsSideBySideReachAsFarAsTheFarthest) {
  v1::KernelInfo::Phase& both = phase(16);
  write(walk(both, {16, 10}, {{0, 1, 16}}), 1, {10, 1});
  write(walk(both, {16, 10}, {{0, 4, 4}}), 1, {10, 1});
  ASSERT_EQ(grid_bounds().size(), 1U);  // one row needs 4 of 16 cells: one step of the coarse nest
  EXPECT_EQ(written(1), 160);
  EXPECT_EQ(written(16), 640);
}

TEST_F(Reaches, EveryPhaseCounts) {
  write(walk(phase(16), {16, 10}, {{0, 1, 16}}), 1, {10, 1});
  write(walk(phase(4), {16, 10}, {{0, 4, 4}}), 1, {10, 1});
  EXPECT_EQ(written(1), 160);
  EXPECT_EQ(written(5), 320);
}

TEST_F(Reaches, TwoRangesReachAsFarAsBothLetThem) {
  v1::DimensionBinding& dimension = *plan_.add_dimensions();
  dimension.set_name("M");
  dimension.set_size(-5);
  for (int operand = 0; operand < 2; ++operand) {
    v1::Step::Rows& entry = *step_.add_rows();
    entry.set_operand(operand);
    entry.add_dimensions(1);
    entry.set_stride(2);  // [16, 5, 2]
  }
  write(walk(phase(80), {16, 5, 2}, {{0, 1, 16}, {1, 1, 5}}), 1, {10, 2, 1});
  ASSERT_EQ(write_bounds().size(), 1U);
  ASSERT_EQ(write_bounds()[0].terms.size(), 2U);
  EXPECT_EQ(written(1), 8);
  EXPECT_EQ(written(3), 2 * 40 + 2 * 8 + 8);  // 3 of both
  EXPECT_EQ(written(16), 640);
}

TEST_F(Reaches, APhaseThatIsNotCutMayWriteAll) {
  write(walk(phase(16), {16, 10}, {{0, 1, 16}}), 1, {10, 1});
  write(walk(phase(10), {16, 10}, {{1, 1, 10}}), 1, {10, 1});
  ASSERT_EQ(grid_bounds().size(), 1U);
  EXPECT_THAT(write_bounds(), IsEmpty());
}

TEST_F(Reaches, APhaseOfWhichNothingIsKnownMayWriteAll) {
  write(walk(phase(16), {16, 10}, {{0, 1, 16}}), 1, {10, 1});
  phase(3);
  EXPECT_THAT(write_bounds(), IsEmpty());
}

TEST_F(Reaches, APhaseThatWritesNoResultIsInNobodysWay) {
  phase(3).add_walks();  // for example packs an operand
  write(walk(phase(16), {16, 10}, {{0, 1, 16}}), 1, {10, 1});
  ASSERT_EQ(grid_bounds().size(), 1U);
  EXPECT_EQ(written(2), 80);
}

TEST_F(Reaches, TheFrontThatANestWritesWholeCountsAsItIs) {
  write(walk(phase(16), {16, 10}, {{0, 1, 16}}), 1, {10, 1});
  write(walk(phase(1), {3}, {}), 1, {10});  // the first column of three rows
  EXPECT_EQ(written(1), 2 * 40 + 4);
  EXPECT_EQ(written(4), 160);
}

}  // namespace
}  // namespace tessera::compiler
