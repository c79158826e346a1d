#include "compiler/backends/spatial/timeline.h"

#include <gtest/gtest.h>

#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/simulate.h"
#include "compiler/backends/spatial/testing/chips.h"

namespace tessera::compiler::simulator {
namespace {

/// 2x2x2 products of bytes from one buffer of `bytes`; DRAM is read at 4 bytes per cycle and written at 2.
v1::Target smallChip(int bytes) {
  return testing::chipOf(R"(
    name: "small" family: SPATIAL
    memory { name: "buffer" capacity_bytes: )" +
                         std::to_string(bytes) + R"( bandwidth_bytes_per_cycle: 8 shared_by: 1 energy_pj_per_byte: 1 }
    memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 write_bandwidth_bytes_per_cycle: 2 shared_by: 1 energy_pj_per_byte: 100 }
    units { name: "unit" count: 1 lanes: 8 frequency_ghz: 1 ops_per_cycle: 16 }
    intrinsics {
      name: "mul.2x2x2" emit: "mul" latency_cycles: 8 cycles_per_issue: 2
      iterations { name: "i" extent: 2 } iterations { name: "j" extent: 2 } iterations { name: "r" extent: 2 reduction: true }
      operands { name: "c" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "j" memory: "buffer" }
      operands { name: "a" dtype: DATA_TYPE_I8 subscripts: "i" subscripts: "r" memory: "buffer" }
      operands { name: "b" dtype: DATA_TYPE_I8 subscripts: "r" subscripts: "j" memory: "buffer" }
      arithmetic { form: MULTIPLY_ADD overflow: WRAP } })");
}

Timeline timeOf(const v1::Target& chip, const std::vector<int64_t>& extents, intrinsic::Tiling tiling) {
  intrinsic::Choice choice =
      candidatesOf(testing::nestOf("O[i, j] += A[i, k] * B[k, j]", extents), chip, {.instruction = {}, .typed = false})
          .value()
          .choices.front();
  choice.tiling = std::move(tiling);
  const Program program = lower(std::move(choice), chip).value();
  EXPECT_TRUE(check(program, 1, 1 << 20)->right());
  return timelineOf(program).value();
}

TEST(Timeline, OneCallByHand) {
  const Timeline time = timeOf(smallChip(24), {2, 2, 2}, {{1, 1, 1}, {1, 1, 1}});
  // a arrives at 1, b at 2 and is written to the buffer until 1.5 later; zeros of c are written at 3.5; the call takes
  // its latency; 16 bytes leave at 2 per cycle.
  EXPECT_DOUBLE_EQ(time.cycles, 3.5 + 8 + 8);
  EXPECT_EQ(time.calls, 1);
  EXPECT_EQ(time.copies, 3);
  EXPECT_EQ(time.fills, 1);
  ASSERT_EQ(time.traffic.size(), 2u);
  EXPECT_EQ(time.traffic[0].written_bytes, 4 + 4 + 16);
  EXPECT_EQ(time.traffic[0].read_bytes, 16);
  EXPECT_EQ(time.traffic[1].read_bytes, 8);
  EXPECT_EQ(time.traffic[1].written_bytes, 16);
  EXPECT_DOUBLE_EQ(time.picojoules, 40 + 100 * 24);
  EXPECT_DOUBLE_EQ(time.utilization, 2 / time.cycles);
  EXPECT_EQ(time.busiest, "DRAM write");
}

TEST(Timeline, ASumWaitsForItsLatencyAndIndependentResultsDoNot) {
  // Four calls for one result, each waiting for the one before; four calls for four results, one issue interval apart.
  // All operands are loaded first.
  const Timeline sum = timeOf(smallChip(4096), {2, 2, 8}, {{1, 1, 4}, {1, 1, 4}});
  EXPECT_DOUBLE_EQ(sum.cycles, (16 / 4.0 + 16 / 4.0 - 16 / 4.0 + 16 / 8.0) + 2 + 4 * 8 + 8);
  const Timeline results = timeOf(smallChip(4096), {4, 4, 2}, {{2, 2, 1}, {2, 2, 1}});
  // a and b are 8 bytes each; zeros of 64 bytes follow in the buffer; 64 bytes leave.
  EXPECT_DOUBLE_EQ(results.cycles, (2 + 1 + 8) + 3 * 2 + 8 + 32);
}

TEST(Timeline, PaddingIsNotReadAndNotWrittenOutside) {
  const Timeline time = timeOf(smallChip(4096), {3, 1, 5}, {{2, 1, 3}, {2, 1, 3}});
  EXPECT_EQ(time.traffic[1].read_bytes, 3 * 5 + 5 * 1);
  EXPECT_EQ(time.traffic[1].written_bytes, 4 * 3);
  EXPECT_EQ(time.traffic[0].written_bytes, 2 * 3 * 4 + 3 * 4 + 2 * 16);
  EXPECT_EQ(time.calls, 6);
}

TEST(Timeline, OverlappingWindowsAreReadOncePerCopyOnRequest) {
  // Windows of three elements of two rows of 18. One tile holds all.
  const v1::Target chip = smallChip(4096);
  intrinsic::Choice choice = candidatesOf(testing::nestOf("O[p, k] += I[c, p + r] * W[k, c, r]", {16, 2, 2, 3}), chip,
                                          {.instruction = {}, .typed = false})
                                 .value()
                                 .choices.front();
  for (size_t l = 0; l + 1 < choice.tiling.size(); ++l) choice.tiling[l] = choice.tiling.back();
  const Program program = lower(std::move(choice), chip).value();
  const Timeline blocks = timelineOf(program).value(), once = timelineOf(program, /*once=*/true).value();
  EXPECT_EQ(blocks.traffic[1].read_bytes, 2 * 16 * 3 + 2 * 2 * 3);
  EXPECT_EQ(once.traffic[1].read_bytes, 2 * 18 + 2 * 2 * 3);
  EXPECT_EQ(once.traffic[0].written_bytes, blocks.traffic[0].written_bytes);
  EXPECT_LT(once.cycles, blocks.cycles);
}

TEST(Timeline, ASecondCopyHidesLoads) {
  // Forty products of a sum, one block of each source at a time: with room for two blocks the next one is loaded
  // meanwhile.
  const intrinsic::Tiling tiling = {{1, 1, 1}, {1, 1, 40}};
  v1::Target small = smallChip(24), large = smallChip(32);
  small.mutable_intrinsics(0)->set_cycles_per_issue(8);  // a call occupies its blocks until the next one can be issued
  large.mutable_intrinsics(0)->set_cycles_per_issue(8);
  const Timeline one = timeOf(small, {2, 2, 80}, tiling), two = timeOf(large, {2, 2, 80}, tiling);
  EXPECT_GE(one.cycles, 40 * (2 + 8));
  EXPECT_LT(two.cycles, 40 * 8 + 30);
  EXPECT_EQ(one.traffic[1].read_bytes, two.traffic[1].read_bytes);
}

TEST(Timeline, ACacheAnswersWhatItHasKept) {
  v1::Target chip = smallChip(24);
  v1::MemoryLevel cache = chip.memory(1);
  cache.set_name("cache");
  cache.set_capacity_bytes(64);
  cache.set_bandwidth_bytes_per_cycle(6);
  *chip.add_memory() = chip.memory(1);
  *chip.mutable_memory(1) = cache;
  // Rows of four blocks of results: a's block stays in the buffer, each of b's is loaded once for each row.
  const Timeline kept = timeOf(chip, {4, 8, 2}, {{1, 1, 1}, {1, 1, 1}, {2, 4, 1}});
  ASSERT_EQ(kept.traffic.size(), 3u);
  EXPECT_EQ(kept.traffic[1].memory, "DRAM");
  EXPECT_EQ(kept.traffic[1].read_bytes, 2 * 4 + 4 * 4);
  EXPECT_EQ(kept.traffic[2].read_bytes, 4 * 4);
  chip.mutable_memory(1)->set_capacity_bytes(25);  // too small for b
  const Timeline lost = timeOf(chip, {4, 16, 2}, {{1, 1, 1}, {1, 1, 1}, {2, 8, 1}});
  EXPECT_EQ(lost.traffic[2].read_bytes, 0);
}

TEST(Timeline, UnitsShareTheOutermostTiles) {
  v1::Target chip = smallChip(24);
  const intrinsic::Tiling tiling = {{1, 1, 1}, {6, 1, 1}};
  const double alone = timeOf(chip, {12, 2, 2}, tiling).cycles;
  chip.mutable_units(0)->set_count(4);  // two tiles for each of three units
  const Timeline shared = timeOf(chip, {12, 2, 2}, tiling);
  EXPECT_EQ(shared.calls, 6);
  EXPECT_LT(shared.cycles, alone / 2);
  EXPECT_GT(shared.cycles, alone / 4);
}

}  // namespace
}  // namespace tessera::compiler::simulator
