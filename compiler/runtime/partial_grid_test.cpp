#include "compiler/runtime/partial_grid.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tessera::compiler {
namespace {

/// Cells of a grid [outer][count][inner]... within the needed iterations of each grid bound, enumerated one by one.
std::vector<int64_t> cellsByHand(int64_t grid, const std::vector<EvaluatedGridBound>& grid_bounds) {
  std::vector<int64_t> cells;
  for (int64_t cell = 0; cell < grid; ++cell) {
    bool needed = true;
    for (const EvaluatedGridBound& bound : grid_bounds) needed &= cell / bound.inner % bound.count < bound.needed;
    if (needed) cells.push_back(cell);
  }
  return cells;
}

std::vector<int64_t> cellsOf(const std::vector<EvaluatedGridBound>& grid_bounds, int64_t low, int64_t high) {
  std::vector<int64_t> cells;
  forEachRun(grid_bounds, low, high, [&](int64_t lo, int64_t hi) {
    EXPECT_LT(lo, hi);
    for (int64_t cell = lo; cell < hi; ++cell) cells.push_back(cell);
  });
  return cells;
}

TEST(GridPart, HoldsWhatIsNeededInOrderHoweverItIsShared) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
  for (int round = 0; round < 500; ++round) {
    // From the fastest dimension outwards: cells, a bounded dimension, cells, another bounded dimension, cells.
    const int64_t inner = draw(5), count = draw(6), between = draw(3), slow_count = draw(5), outer = draw(4);
    std::vector<EvaluatedGridBound> grid_bounds{{slow_count, inner * count * between, draw(slow_count)},
                                                {count, inner, draw(count)}};
    if (round % 3 == 0) grid_bounds.erase(grid_bounds.begin());
    if (round % 5 == 0) grid_bounds.pop_back();
    const int64_t grid = inner * count * between * slow_count * outer;
    const std::vector<int64_t> expected = cellsByHand(grid, grid_bounds);
    const int64_t left = boundGrid(grid, grid_bounds);
    ASSERT_EQ(left, static_cast<int64_t>(expected.size()));
    std::vector<int64_t> cells;
    for (int64_t low = 0; low < left;) {
      const int64_t high = std::min(left, low + draw(9));
      const std::vector<int64_t> part = cellsOf(grid_bounds, low, high);
      cells.insert(cells.end(), part.begin(), part.end());
      low = high;
    }
    ASSERT_EQ(cells, expected) << "round " << round;
  }
}

TEST(GridPart, RoundsRowsUpToSteps) {
  tessera_module_grid_bound bound{
      .phase = 0, .ranges = 1, .count = 4, .inner = 1, .numerator = 3, .denominator = 8, .slack = 0};
  EXPECT_EQ(neededSteps(bound, 0), 0);
  EXPECT_EQ(neededSteps(bound, 1), 1);
  EXPECT_EQ(neededSteps(bound, 3), 2);
  EXPECT_EQ(neededSteps(bound, 9), 4);
  EXPECT_EQ(neededSteps(bound, 90), 4);
  bound.slack = 2;
  EXPECT_EQ(neededSteps(bound, 1), 3);
  EXPECT_EQ(neededSteps(bound, 0), 2);  // a result may have more rows than the range
}

TEST(GridPart, NothingIsLeftOfNoRows) {
  std::vector<EvaluatedGridBound> grid_bounds{{.count = 4, .inner = 3, .needed = 0}};
  EXPECT_EQ(boundGrid(24, grid_bounds), 0);
}

}  // namespace
}  // namespace tessera::compiler
