#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/testing/instructions.h"
#include "compiler/intrinsic/tiling_choice.h"

namespace tessera::compiler::intrinsic {
namespace {

/// One level of 64 bytes that is filled with 4 bytes per cycle and emptied with 2: a cache, unless it is named
/// "shared", the level that statements of the instruction use.
v1::Target smallChip(const std::string& level = "buffer") {
  v1::Target chip = parseTarget(R"(
      name: "small" family: SPATIAL
      memory { name: "buffer" capacity_bytes: 64 bandwidth_bytes_per_cycle: 8 shared_by: 1 }
      memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 write_bandwidth_bytes_per_cycle: 2 shared_by: 1 }
      units { name: "unit" count: 2 lanes: 1 frequency_ghz: 1 ops_per_cycle: 16 })")
                        .value();
  chip.mutable_memory(0)->set_name(level);
  v1::Intrinsic unit = testing::smallMatrixUnit();
  unit.set_latency_cycles(8);
  unit.set_cycles_per_issue(2);
  *chip.add_intrinsics() = unit;
  return chip;
}

/// The price of a product whose loops are the unit's i, j and r.
absl::StatusOr<Price> priceOf(const v1::Target& chip, const std::vector<int64_t>& extents, const Tiling& tiling) {
  const v1::Intrinsic& unit = chip.intrinsics(0);
  const Nest software = loopnest::parse("g", "O[i, j] += A[i, k] * B[k, j]", extents).value();
  const PhysicalMapping mapping = physicalMapping(software, unit, {{0, 1, 2}, {1, 2}}, chip).value();
  return MappingCostModel(software, unit, mapping, chip).of(tiling);
}

TEST(Price, FollowsEquations56To58) {
  // Registers hold 1x1x1 blocks, the level 2x1x2 of them (sources one byte per element, results four).
  const Price price = priceOf(smallChip("shared"), {8, 8, 8}, {{1, 1, 1}, {2, 1, 2}, {4, 4, 4}}).value();
  ASSERT_EQ(price.levels.size(), 3u);
  EXPECT_DOUBLE_EQ(price.levels[0].cycles, 8);  // a single result: the latency
  EXPECT_DOUBLE_EQ(price.levels[0].in_cycles, (4 + 4) / 8.0);
  EXPECT_DOUBLE_EQ(price.levels[0].out_cycles, 16 / 8.0 / 4);  // once for four blocks of its sum
  EXPECT_DOUBLE_EQ(price.levels[1].cycles, 4 * 8);
  EXPECT_DOUBLE_EQ(price.levels[1].in_bytes, 16 + 8);
  EXPECT_DOUBLE_EQ(price.levels[1].in_cycles, 24 / 4.0);
  EXPECT_DOUBLE_EQ(price.levels[1].out_cycles, 32 / 2.0 / 2);  // the output's own bandwidth
  EXPECT_DOUBLE_EQ(price.levels[2].loops, 2 * 4 / 2.0 * 2);    // two units
  EXPECT_DOUBLE_EQ(price.cycles, 8 * 32);
}

TEST(Price, PaddingIsNoTrafficOfWhereTensorsAre) {
  // One column of two: half of each block of B and of the results is padding.
  const Price price = priceOf(smallChip("shared"), {8, 1, 8}, {{1, 1, 1}, {2, 1, 2}, {4, 1, 4}}).value();
  EXPECT_DOUBLE_EQ(price.levels[0].in_bytes, 4 + 4) << "in the level that statements fill it lies";
  EXPECT_DOUBLE_EQ(price.levels[1].in_bytes, 16 + 8 / 2.0);
  EXPECT_DOUBLE_EQ(price.levels[1].in_cycles, 20 / 4.0);
  EXPECT_DOUBLE_EQ(price.levels[1].out_bytes, 32 / 2.0 / 2);
  // A level that writes padding slowly takes longer for it than the tensor's memory takes for the data.
  v1::Target slow = smallChip("shared");
  slow.mutable_memory(0)->set_write_bandwidth_bytes_per_cycle(3);
  EXPECT_DOUBLE_EQ(priceOf(slow, {8, 1, 8}, {{1, 1, 1}, {2, 1, 2}, {4, 1, 4}})->levels[1].in_cycles, 24 / 3.0);
}

TEST(Price, TheUnitThatHasMostHasNoRaggedEnd) {
  // Seven rows in four blocks: a single unit includes the partial last block; with two units, the first has whole
  // blocks.
  v1::Target chip = smallChip("shared");
  const Tiling tiling = {{1, 1, 1}, {2, 1, 2}, {4, 1, 4}};
  EXPECT_DOUBLE_EQ(priceOf(chip, {7, 2, 8}, tiling)->levels[1].in_bytes, 16 + 8);
  chip.mutable_units(0)->set_count(1);
  EXPECT_DOUBLE_EQ(priceOf(chip, {7, 2, 8}, tiling)->levels[1].in_bytes, 16 * 7 / 8.0 + 8);
}

TEST(Price, ATileThatAUnitsLoopsDoNotMoveIsNotBroughtAgain) {
  // One block of the sum in total: along its four columns a unit's A stays in either kind of level.
  const Tiling stays = {{1, 1, 1}, {2, 1, 2}, {4, 4, 2}};
  for (const char* level : {"shared", "buffer"}) {
    EXPECT_DOUBLE_EQ(priceOf(smallChip(level), {8, 8, 4}, stays)->levels[1].in_bytes, 16 / 4.0 + 8) << level;
  }
  // Two blocks: in a level filled by statements they replace each other; a cache of 64 bytes keeps both.
  const Tiling returns = {{1, 1, 1}, {2, 1, 2}, {4, 4, 4}};
  EXPECT_DOUBLE_EQ(priceOf(smallChip("shared"), {8, 8, 8}, returns)->levels[1].in_bytes, 16 + 8);
  EXPECT_DOUBLE_EQ(priceOf(smallChip("buffer"), {8, 8, 8}, returns)->levels[1].in_bytes, 16 / 4.0 + 8);
  // A tile of results alone takes 32 bytes; the sources accessed for one column take 48.
  const Tiling longer = {{1, 1, 1}, {2, 1, 2}, {4, 4, 8}};
  EXPECT_DOUBLE_EQ(priceOf(smallChip("buffer"), {8, 8, 16}, longer)->levels[1].in_bytes, 16 + 8) << "96 have no room";
}

TEST(Price, ALevelThatIsTooSmallIsRefused) {
  const auto price = priceOf(smallChip(), {8, 8, 8}, {{1, 1, 1}, {4, 4, 1}, {4, 4, 4}});
  EXPECT_EQ(price.status().message(), "buffer is too small");
}

TEST(Choice, TilingHidesWhatItCan) {
  const v1::Target chip = smallChip();
  const Nest software = loopnest::parse("g", "O[i, j] += A[i, k] * B[k, j]", {8, 8, 8}).value();
  const Choice choice = tiled(software, chip.intrinsics(0), {{0, 1, 2}, {1, 2}}, chip).value();
  const double least = 64 / 2.0 * 2;  // calls of two units at the issue interval
  EXPECT_GE(choice.price.cycles, least);
  EXPECT_LT(choice.price.cycles, 8 * 32);
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
