#include "compiler/runtime/arena_layout.h"

#include <gtest/gtest.h>

namespace tessera::compiler {
namespace {

/// Three steps that pass on an intermediate of `kRows` rows of 64 bytes each; the results of the first two are cut to
/// the run's rows, one more row per count. The third writes its whole result, which is small.
constexpr int64_t kRows = 100, kBytes = kRows * 64;

struct Chain {
  tessera_module_grid_bound grid_bounds[2] = {{0, 1, kRows, 1, 1, 1, 0}, {0, 1, kRows, 1, 1, 1, 0}};
  tessera_module_write_bound_term term = {0, 0, 1, 1, 64, kBytes};
  tessera_module_write_bound bound = {1, 1, 0, &term};
  tessera_module_buffer buffers[4] = {{TESSERA_BUFFER_INPUT, 0, 0, kBytes},
                                      {TESSERA_BUFFER_ARENA, 0, 0, kBytes},
                                      {TESSERA_BUFFER_ARENA, 1, kBytes, kBytes},
                                      {TESSERA_BUFFER_ARENA, 2, 0, 128}};
  tessera_module_allocation allocations[3] = {{0, kBytes, 0, 1}, {kBytes, kBytes, 1, 2}, {0, 128, 2, 3}};
  int32_t operands[3][2] = {{0, 1}, {1, 2}, {2, 3}};
  tessera_module_step steps[3] = {};
  tessera_module_variant variant = {};

  Chain() {
    for (int s = 0; s < 3; ++s) {
      steps[s].num_operands = 2;
      steps[s].operands = operands[s];
      steps[s].num_results = 1;
      if (s == 2) continue;
      steps[s].num_grid_bounds = 1;
      steps[s].grid_bounds = &grid_bounds[s];
      steps[s].num_write_bounds = 1;
      steps[s].write_bounds = &bound;
    }
    variant.buffers = buffers;
    variant.steps = steps;
    variant.allocations = allocations;
    variant.num_buffers = 4;
    variant.num_steps = 3;
    variant.num_allocations = 3;
    variant.arena_bytes = 2 * kBytes;
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
};

std::vector<EvaluatedGridBound> rows(int64_t first, int64_t second) {
  return {{kRows, 1, first, 1}, {kRows, 1, second, 1}};
}

TEST(ArenaLayout, ARunTakesWhatItsRowsNeed) {
  const Chain chain;
  ArenaLayout layout(chain.variant);
  EXPECT_EQ(layout.bytes(), 2 * kBytes);
  EXPECT_EQ(layout.reservedBytes(), 3 * kBytes);
  EXPECT_TRUE(layout.fit(rows(3, 3)));
  EXPECT_EQ(layout.bytes(), 3 * 64 + 3 * 64);
  const int64_t a = layout.offset(chain.buffers[1]), b = layout.offset(chain.buffers[2]),
                c = layout.offset(chain.buffers[3]);
  EXPECT_GE(std::abs(a - b), 3 * 64);
  EXPECT_TRUE(c + 128 <= b || b + 3 * 64 <= c);
}

TEST(ArenaLayout, SmallerRunsKeepWhatALargerOneHad) {
  const Chain chain;
  ArenaLayout layout(chain.variant);
  EXPECT_TRUE(layout.fit(rows(50, 50)));
  EXPECT_EQ(layout.bytes(), 100 * 64);
  EXPECT_FALSE(layout.fit(rows(2, 2)));
  EXPECT_EQ(layout.bytes(), 100 * 64);
  EXPECT_TRUE(layout.fit(rows(51, 51)));
  EXPECT_EQ(layout.bytes(), 102 * 64);
}

TEST(ArenaLayout, TheGreatestRunHasThePlansOwnPlaces) {
  const Chain chain;
  ArenaLayout layout(chain.variant);
  layout.fit(rows(1, 1));
  EXPECT_TRUE(layout.fit(rows(kRows, kRows)));
  EXPECT_EQ(layout.bytes(), 2 * kBytes);
  EXPECT_EQ(layout.offset(chain.buffers[2]), kBytes);
}

TEST(ArenaLayout, RunsOfWhichNoneHoldsTheOtherHaveTheirOwn) {
  const Chain chain;
  ArenaLayout layout(chain.variant);
  EXPECT_TRUE(layout.fit(rows(60, 1)));
  EXPECT_EQ(layout.bytes(), 61 * 64);
  EXPECT_TRUE(layout.fit(rows(1, 60)));
  EXPECT_LE(layout.bytes(), 62 * 64);
  EXPECT_TRUE(layout.fit(rows(60, 1)));
  EXPECT_EQ(layout.bytes(), 61 * 64);
  layout.fit(rows(60, 60));  // covers both, which are dropped
  EXPECT_FALSE(layout.fit(rows(60, 1)));
  EXPECT_EQ(layout.bytes(), 120 * 64);
}

TEST(ArenaLayout, PartsOfAPlaceStayWhereTheyAreInIt) {
  Chain chain;
  // written by the third step, after the second step's result
  chain.buffers[3] = {TESSERA_BUFFER_ARENA, 1, kBytes + 640, 128};
  ArenaLayout layout(chain.variant);
  layout.fit(rows(1, 1));
  EXPECT_EQ(layout.offset(chain.buffers[3]) - layout.offset(chain.buffers[2]), 640);
  EXPECT_GE(layout.bytes(), 640 + 128 + 64);
}

TEST(ArenaLayout, WithoutPlacesAllStaysWhereThePlanHasIt) {
  Chain chain;
  chain.variant.num_allocations = 0;
  ArenaLayout layout(chain.variant);
  EXPECT_FALSE(layout.fit(rows(1, 1)));
  EXPECT_EQ(layout.bytes(), 2 * kBytes);
  EXPECT_EQ(layout.reservedBytes(), 2 * kBytes);
  EXPECT_EQ(layout.offset(chain.buffers[2]), kBytes);
}

}  // namespace
}  // namespace tessera::compiler
