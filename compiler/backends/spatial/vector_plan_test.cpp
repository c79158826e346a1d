#include "compiler/backends/spatial/vector_plan.h"

#include <gmock/gmock.h>

#include "compiler/backends/spatial/testing/kernels.h"

namespace tessera::compiler::simulator {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// chip() has two units of 8 lanes on "far" (2048 bytes, 8 bytes per cycle, 2 pJ); DRAM is read at 4 and written at 2
// bytes per cycle (60 pJ).

SpatialNest nestOf(const v1::SpatialKernel& kernel) {
  const auto checked = checkKernel(kernel);
  EXPECT_TRUE(checked.ok()) << checked.status();
  return checked->nests[0];
}

/// out[i, j] = a[i, j] + b[j]
SpatialNest sumOfRows(int64_t i, int64_t j) {
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, kF32, {i, j}), a = addBuffer(kernel, kF32, {i, j}),
            b = addBuffer(kernel, kF32, {j});
  NestMaker nest(kernel, "add", {{"i", i}, {"j", j}});
  nest.access(out, {"i", "j"});
  const int x = nest.access(a, {"i", "j"}), y = nest.access(b, {"j"});
  nest.yield({nest.operation("addf", kF32, {x, y})});
  return nestOf(kernel);
}

TEST(VectorPlan, TimeAndEnergyByHand) {
  const SpatialNest nest = sumOfRows(2, 50);
  // One tile of 50 elements for each unit: nothing overlaps.
  const VectorCost one = *costOf({"lanes", {1, 50}}, nest, chip());
  EXPECT_DOUBLE_EQ(one.cycles, (50 + 50) * 4 / 4.0 + 50 * 4 / 2.0 + 50 / 8.0);
  EXPECT_DOUBLE_EQ(one.unit_cycles, 50 / 8.0);
  EXPECT_DOUBLE_EQ(one.operations, 100);
  ASSERT_EQ(one.levels.size(), 2u);
  EXPECT_EQ(one.levels[0].name, "far");
  EXPECT_EQ(one.levels[1].name, "DRAM");
  // Each unit reads b.
  EXPECT_EQ(one.levels[1].read_bytes, (100 + 2 * 50) * 4);
  EXPECT_EQ(one.levels[1].written_bytes, 100 * 4);
  EXPECT_EQ(one.levels[0].written_bytes, one.levels[1].read_bytes);
  EXPECT_EQ(one.levels[0].peak_bytes, 2 * 150 * 4);
  EXPECT_DOUBLE_EQ(one.energy_pj, 1200 * 60 + 1200 * 2);
  // Ten tiles for each unit: copies in, computation and copies out overlap.
  const VectorCost ten = *costOf({"lanes", {1, 5}}, nest, chip());
  EXPECT_DOUBLE_EQ(ten.cycles, 100 * 0.9 + (100 + 100 + 50 / 8.0) * 0.1);
}

TEST(VectorPlan, ALevelBetweenServesWhatIsReadAgain) {
  v1::Target cached = chip();
  v1::MemoryLevel cache = cached.memory(3);
  cache.set_name("cache");
  cache.set_bandwidth_bytes_per_cycle(8);
  cache.set_capacity_bytes(1 << 20);
  cache.set_shared_by(1);
  *cached.add_memory() = cached.memory(4);
  *cached.mutable_memory(4) = cache;
  const SpatialNest nest = sumOfRows(40, 50);
  // The inner loop over tiles moves b: each of 80 tiles reads 25 elements of it.
  const VectorCost cost = *costOf({"lanes", {1, 25}}, nest, cached);
  ASSERT_EQ(cost.levels.size(), 3u);
  EXPECT_EQ(cost.levels[1].name, "cache");
  EXPECT_EQ(cost.levels[2].read_bytes, (40 * 50 + 50) * 4);
  EXPECT_EQ(cost.levels[1].read_bytes, (80 * 25 - 50) * 4);
}

TEST(VectorPlan, RatesAreFoundByNameThenKind) {
  v1::Target rated = chip();
  const auto rate = [&](const std::string& operation, v1::DataType type, double elements, double energy) {
    v1::ComputeUnit::Rate* added = rated.mutable_units(1)->add_rates();
    added->set_operation(operation);
    added->set_dtype(type);
    added->set_elements_per_cycle(elements);
    added->set_energy_pj(energy);
  };
  rate("elementwise", v1::DATA_TYPE_UNSPECIFIED, 4, 1);
  rate("reduction", v1::DATA_TYPE_UNSPECIFIED, 2, 3);
  rate("transcendental", v1::DATA_TYPE_UNSPECIFIED, 0.5, 10);
  rate("mulf", kF32, 16, 0.25);
  v1::SpatialKernel kernel;
  const int out = addBuffer(kernel, kF32, {8}), in = addBuffer(kernel, kF32, {8, 4});
  NestMaker maker(kernel, "sum", {{"i", 8}, {"r", 4}});
  const int old = maker.access(out, {"i"}), x = maker.access(in, {"i", "r"});
  const int e = maker.operation("exp", kF32, {x}), square = maker.operation("mulf", kF32, {e, e});
  maker.yield({maker.operation("addf", kF32, {old, maker.operation("negf", kF32, {square})})});
  const VectorCost cost = *costOf({"lanes", {4, 4}}, nestOf(kernel), rated);
  EXPECT_DOUBLE_EQ(cost.unit_cycles, 16 * (1 / 0.5 + 1 / 16.0 + 1 / 4.0 + 1 / 2.0));
  EXPECT_DOUBLE_EQ(cost.operations, 32 * 4);
  double moved = 0;
  for (const auto& level : cost.levels) moved += level.energy_pj;
  EXPECT_DOUBLE_EQ(cost.energy_pj - moved, 32 * (10 + 0.25 + 1 + 3));
}

TEST(VectorPlan, TilesFitAndLeaveWorkForAllUnits) {
  for (const auto& [i, j] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {64, 1000}, {1, 100000}, {5000, 3}}) {
    const SpatialNest nest = sumOfRows(i, j);
    const auto plan = planVector(nest, chip());
    ASSERT_TRUE(plan.ok()) << plan.status();
    const auto cost = costOf(*plan, nest, chip());
    ASSERT_TRUE(cost.ok()) << cost.status();
    EXPECT_LE(cost->levels[0].peak_bytes, 2048);
    const v1::Tile tree = treeOf(*plan, nest, 7, chip());
    const auto read = vectorPlanOf(tree, nest, 7, "7", chip());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, *plan);
    EXPECT_FALSE(vectorPlanOf(tree, nest, 6, "6", chip()).ok());
  }
  const absl::Status large = costOf({"lanes", {64, 1000}}, sumOfRows(64, 1000), chip()).status();
  EXPECT_THAT(std::string(large.message()), HasSubstr("far has 2048 bytes for lanes"));
}

}  // namespace
}  // namespace tessera::compiler::simulator
