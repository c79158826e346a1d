#include "compiler/fusion/region_planner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "compiler/fusion/testing/chips.h"

namespace tessera::compiler::fusion {
namespace {

/// What regions are planned for.
struct Setting {
  v1::Target target;
  RegionLevels levels{{0}, 1};

  Chip chip() const { return Chip(target); }
  void setLine(int bytes) { target.mutable_memory(static_cast<int>(levels.far))->set_line_bytes(bytes); }
  v1::Prices::Steps& steps() { return *target.mutable_prices()->mutable_steps(); }
};

/// Data sheet of an accelerator with the near memory of the TLF text, all of which slices may take.
Setting sixteenMegabytes() {
  Setting setting{coreOf(20000)};
  addLevel(setting.target, "L2", 16 << 20, 2000);
  addLevel(setting.target, "L3", 0, 100);
  setting.setLine(256);
  setting.steps().set_nest_cycles(2000);
  setting.steps().set_slice_cycles(1000);
  setting.steps().set_run_cycles(0);
  setting.target.mutable_prices()->mutable_memory()->set_held_share(1);
  return setting;
}

/// conv 1x1, bn, relu, conv 3x3, bn, relu, conv 1x1, bn, add, relu.
RegionGraph residualBlock(int64_t batch, int64_t channels, int64_t inner, int64_t size, bool pooled = false) {
  RegionGraphBuilder b;
  const int x = b.input("x", {batch, channels, size, size});
  int y = b.elementwise("relu1", {b.elementwise("bn1", {b.convolution("conv1", x, inner, 1, 1, 0)}, 2)});
  y = b.elementwise("relu2", {b.elementwise("bn2", {b.convolution("conv2", y, inner, 3, 1, 1)}, 2)});
  y = b.elementwise("bn3", {b.convolution("conv3", y, channels, 1, 1, 0)}, 2);
  y = b.elementwise("relu3", {b.elementwise("add", {y, x})});
  if (pooled) y = b.elementwise("scale", {b.globalAveragePool("pool", y)});
  return b.finish({y});
}

/// All partitions into regions with an order in which they can run, by trying every next region.
double bruteForce(const RegionGraph& graph, const Chip& chip, const RegionLevels& levels) {
  const int count = static_cast<int>(graph.nodes.size());
  std::vector<uint32_t> needs(count, 0);
  for (int n = 0; n < count; ++n)
    for (const auto& input : graph.nodes[n].inputs)
      if (const int p = graph.producerOf(input.tensor); p >= 0) needs[n] |= 1U << p;
  double best = INFINITY;
  std::map<uint32_t, std::optional<Region>> known;
  std::function<void(uint32_t, double)> run = [&](uint32_t done, double seconds) {
    if (done + 1 == 1U << count) best = std::min(best, seconds);
    for (uint32_t set = 1; set < 1U << count; ++set) {
      if (set & done) continue;
      std::vector<int> nodes;
      bool ready = true;
      for (int n = 0; n < count; ++n)
        if (set >> n & 1) {
          nodes.push_back(n);
          ready &= (needs[n] & ~(done | set)) == 0;
        }
      if (!ready) continue;
      auto [at, fresh] = known.try_emplace(set);
      if (fresh) at->second = planRegion(graph, nodes, chip, levels);
      if (at->second) run(done | set, seconds + at->second->seconds);
    }
  };
  run(0, 0);
  return best;
}

TEST(SliceInference, HaloGrowsBackwardsThroughWindows) {
  RegionGraphBuilder b;
  const int x = b.input("x", {1, 8, 64, 64});
  const int y = b.convolution("c2", b.convolution("c1", x, 8, 3, 2, 1), 8, 3, 1, 1);
  const RegionGraph graph = b.finish({y});
  ASSERT_TRUE(validate(graph).ok());
  auto shapes = inferSlices(graph, {0, 1}, {1, 8, 4, 32});
  ASSERT_TRUE(shapes.has_value());
  // 4 rows of y need rows -1 .. 5 of c1's result, those need rows 2 * -1 - 1 ... of x.
  EXPECT_EQ(shapes->needed[graph.nodes[0].output][2], (Interval{2, 1, -1, 6}));
  EXPECT_EQ(shapes->needed[x][2], (Interval{2, 2, -3, 13}));
  EXPECT_EQ(shapes->needed[x][3], (Interval{-1, 0, 0, 64}));
  EXPECT_TRUE(shapes->invariant(1));  // weights
  EXPECT_FALSE(shapes->invariant(x));
}

TEST(SliceInference, SkipConnectionNeedsTheUnion) {
  const RegionGraph graph = residualBlock(1, 4, 4, 32);
  auto shapes = inferSlices(graph, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 4, 8, 32});
  ASSERT_TRUE(shapes.has_value());
  EXPECT_EQ(shapes->needed[0][2], (Interval{2, 1, -1, 10}));  // 8 rows by the addition, 10 by the window
}

// The block of the text with its true sizes: one image is 1 GB, so slices of whole images (as in the text, whose
// figures are illustrative) cannot fit 16 MB; rows can.
TEST(RegionPlanner, PlansTheLargeResidualBlock) {
  const RegionGraph graph = residualBlock(32, 256, 64, 1024);
  const Setting setting = sixteenMegabytes();
  const Chip chip = setting.chip();
  auto plan = planRegions(graph, chip, setting.levels);
  ASSERT_TRUE(plan.ok()) << plan.status();
  SCOPED_TRACE(describe(graph, chip, *plan));
  EXPECT_TRUE(plan->exact);
  EXPECT_LT(plan->seconds, plan->untiled_seconds / 2);
  bool fused = false;
  for (const Region& region : plan->regions) {
    if (region.level < 0) continue;
    EXPECT_LE(region.peak_bytes, chip.near().capacity_bytes);
    int64_t slices = 1, points = 1;
    const std::vector<int64_t>& shape = graph.tensors[graph.nodes[region.nodes.back()].output].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      slices *= (shape[d] + region.slice[d] - 1) / region.slice[d];
      points *= region.slice[d];
    }
    EXPECT_EQ(slices, region.slices);
    EXPECT_LT(points, shape[1] * shape[2] * shape[3]) << "a whole image does not fit";
    fused |= region.nodes.size() >= 3;
  }
  EXPECT_TRUE(fused);
  RecordProperty("plan", describe(graph, chip, *plan));
}

TEST(RegionPlanner, EqualsBruteForceOnSmallGraphs) {
  std::mt19937 random(5);
  auto upTo = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  for (int trial = 0; trial < 12; ++trial) {
    RegionGraphBuilder b;
    const int64_t channels = 4 * upTo(1, 8), size = 4 * upTo(2, 8);
    std::vector<int> values = {b.input("x", {upTo(1, 3), channels, size, size})};
    const int count = 5;
    for (int n = 0; n < count; ++n) {
      const int from = values[upTo(0, static_cast<int64_t>(values.size()) - 1)];
      const std::string name = "n" + std::to_string(n);
      const int64_t kind = upTo(0, 3);
      if (kind == 0) {
        values.push_back(b.convolution(name, from, channels, 3, 1, 1));
      } else if (kind == 1) {
        values.push_back(b.convolution(name, from, channels, 1, 1, 0));
      } else {
        const int other = values[upTo(0, static_cast<int64_t>(values.size()) - 1)];
        values.push_back(b.elementwise(name, other == from ? std::vector<int>{from} : std::vector<int>{from, other}));
      }
    }
    const RegionGraph graph = b.finish({values.back()});
    Setting setting = sixteenMegabytes();
    setting.target.clear_memory();
    setting.levels = {{0, 1}, 2};
    addLevel(setting.target, "L1", 4096 * upTo(1, 4), 400);
    addLevel(setting.target, "L2", 65536, 200);
    addLevel(setting.target, "DRAM", 0, 10);
    setting.setLine(16);
    setting.steps().set_nest_cycles(100);
    setting.steps().set_slice_cycles(100);
    const Chip chip = setting.chip();
    auto plan = planRegions(graph, chip, setting.levels);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_NEAR(plan->seconds, bruteForce(graph, chip, setting.levels), 1e-12) << describe(graph, chip, *plan);
    double sum = 0;
    std::vector<int> ran(graph.nodes.size(), 0);
    for (const Region& region : plan->regions) {
      sum += region.seconds;
      for (int n : region.nodes) ++ran[n];
    }
    EXPECT_NEAR(sum, plan->seconds, 1e-12);
    EXPECT_THAT(ran, testing::Each(1));
  }
}

TEST(RegionPlanner, GlobalReductionsBoundRegions) {
  const RegionGraph graph = residualBlock(4, 64, 64, 64, /*pooled=*/true);
  const Setting setting = sixteenMegabytes();
  auto plan = planRegions(graph, setting.chip(), setting.levels);
  ASSERT_TRUE(plan.ok());
  for (const Region& region : plan->regions)
    for (int n : region.nodes)
      if (graph.nodes[n].kind == GraphNode::Kind::kGlobalReduction) EXPECT_EQ(region.nodes.size(), 1);
  EXPECT_FALSE(planRegion(graph, {9, 10}, setting.chip(), setting.levels).has_value());
}

TEST(RegionPlanner, SlicesAreWholeTransfers) {
  RegionGraphBuilder b;
  const int x = b.input("x", {1000, 1000});
  const RegionGraph graph = b.finish({b.elementwise("b", {b.elementwise("a", {x})})});
  Setting setting = sixteenMegabytes();
  setting.target.mutable_memory(0)->set_capacity_bytes(10000);  // less than three rows
  setting.target.mutable_memory(1)->set_bandwidth_bytes_per_cycle(1);
  for (int unit : {64, 1000, 4000}) {
    setting.setLine(unit);
    auto region = planRegion(graph, {0, 1}, setting.chip(), setting.levels);
    ASSERT_TRUE(region.has_value()) << unit;
    EXPECT_EQ(region->slice[1] == 1000 ? region->slice[0] * 4000 % unit : region->slice[1] * 4 % unit, 0);
  }
  setting.setLine(8000);  // two rows do not fit with their results
  EXPECT_FALSE(planRegion(graph, {0, 1}, setting.chip(), setting.levels).has_value());
}

TEST(RegionPlanner, OverheadDeclines) {
  const RegionGraph graph = residualBlock(1, 64, 16, 64);
  Setting setting = sixteenMegabytes();
  setting.target.mutable_memory(0)->set_capacity_bytes(60000);
  auto cheap = planRegions(graph, setting.chip(), setting.levels);
  setting.steps().set_slice_cycles(1e9);
  auto dear = planRegions(graph, setting.chip(), setting.levels);
  ASSERT_TRUE(cheap.ok() && dear.ok());
  for (const Region& region : dear->regions) EXPECT_EQ(region.level, -1);
  EXPECT_NEAR(dear->seconds, dear->untiled_seconds, 1e-12);
  EXPECT_LE(cheap->seconds, cheap->untiled_seconds);
}

TEST(RegionPlanner, WideGraphsAreCutAlongTheirOrder) {
  RegionGraphBuilder b;
  const int x = b.input("x", {64, 1024});
  std::vector<int> branches;
  for (int i = 0; i < 16; ++i) branches.push_back(b.elementwise("n" + std::to_string(i), {x}));
  const RegionGraph graph = b.finish(branches);
  const Setting setting = sixteenMegabytes();
  auto plan = planRegions(graph, setting.chip(), setting.levels, {.nodes = 3, .cuts = 200, .regions = 100});
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->exact);
  EXPECT_EQ(plan->regions.size(), 16);
}

TEST(RegionGraph, FaultsAreNamed) {
  RegionGraph graph = residualBlock(1, 4, 4, 8);
  graph.nodes[3].inputs[0].access.pop_back();
  EXPECT_THAT(validate(graph).message(), testing::HasSubstr("node 'conv2': has 3 subscripts for 'relu1' of rank 4"));
}

}  // namespace
}  // namespace tessera::compiler::fusion
