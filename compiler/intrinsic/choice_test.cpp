#include "compiler/intrinsic/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

/// One level of 64 bytes that is filled with 4 bytes a cycle and emptied with 2.
v1::Target smallChip() {
  v1::Target chip = parseTarget(R"(
      name: "small" family: SPATIAL
      memory { name: "buffer" capacity_bytes: 64 bandwidth_bytes_per_cycle: 8 shared_by: 1 }
      memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 write_bandwidth_bytes_per_cycle: 2 shared_by: 1 }
      units { name: "unit" count: 2 lanes: 1 frequency_ghz: 1 ops_per_cycle: 16 })")
                        .value();
  v1::Intrinsic unit = testing::smallMatrixUnit();
  unit.set_latency_cycles(8);
  unit.set_cycles_per_issue(2);
  *chip.add_intrinsics() = unit;
  return chip;
}

TEST(Price, FollowsEquations56To58) {
  const v1::Target chip = smallChip();
  const v1::Intrinsic& unit = chip.intrinsics(0);
  const Nest software = parseNest("g", "O[i, j] += A[i, k] * B[k, j]", {8, 8, 8}).value();
  const Matching matching{{0, 1, 2}, {1, 2}};
  const PhysicalMapping mapping = physicalMapping(software, unit, matching, chip).value();
  // Registers hold 1x1x1 blocks, the buffer 2x1x2 of them (sources one byte an element, results four).
  const Price price = priceOf(software, unit, matching, mapping, chip, {{1, 1, 1}, {2, 1, 2}, {4, 4, 4}}).value();
  ASSERT_EQ(price.levels.size(), 3u);
  EXPECT_DOUBLE_EQ(price.levels[0].cycles, 8);  // one result: its latency
  EXPECT_DOUBLE_EQ(price.levels[0].in_cycles, (4 + 4) / 8.0);
  EXPECT_DOUBLE_EQ(price.levels[0].out_cycles, 16 / 8.0 / 2);  // once for two blocks of its sum
  EXPECT_DOUBLE_EQ(price.levels[1].cycles, 4 * 8);
  EXPECT_DOUBLE_EQ(price.levels[1].in_bytes, 16 + 8);
  EXPECT_DOUBLE_EQ(price.levels[1].in_cycles, 24 / 4.0);
  EXPECT_DOUBLE_EQ(price.levels[1].out_cycles, 32 / 2.0 / 2);  // the output's own bandwidth
  EXPECT_DOUBLE_EQ(price.levels[2].loops, 2 * 4 / 2 * 2);      // two units
  EXPECT_DOUBLE_EQ(price.cycles, 8 * 32);
}

TEST(Price, ALevelThatIsTooSmallIsRefused) {
  const v1::Target chip = smallChip();
  const Nest software = parseNest("g", "O[i, j] += A[i, k] * B[k, j]", {8, 8, 8}).value();
  const Matching matching{{0, 1, 2}, {1, 2}};
  const PhysicalMapping mapping = physicalMapping(software, chip.intrinsics(0), matching, chip).value();
  const auto price = priceOf(software, chip.intrinsics(0), matching, mapping, chip, {{1, 1, 1}, {4, 4, 1}, {4, 4, 4}});
  EXPECT_EQ(price.status().message(), "buffer is too small");
}

TEST(Choice, TilingHidesWhatItCan) {
  const v1::Target chip = smallChip();
  const Nest software = parseNest("g", "O[i, j] += A[i, k] * B[k, j]", {8, 8, 8}).value();
  const Choice choice = tiled(software, chip.intrinsics(0), {{0, 1, 2}, {1, 2}}, chip).value();
  const double least = 64 / 2.0 * 2;  // calls of two units at the issue interval
  EXPECT_GE(choice.price.cycles, least);
  EXPECT_LT(choice.price.cycles, 8 * 32);
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
