#include "compiler/fusion/region_planner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "compiler/fusion/region_plans.h"
#include "compiler/fusion/selection.h"
#include "compiler/fusion/testing/chips.h"
#include "compiler/fusion/testing/region_graph_builder.h"

namespace tessera::compiler::fusion {
namespace {

/// The chip and levels for which regions are planned.
struct Setting {
  v1::Target target;
  RegionLevels levels{{0}, 1};

  Chip chip() const { return Chip(target); }
  void setLine(int bytes) { target.mutable_memory(static_cast<int>(levels.far))->set_line_bytes(bytes); }
  v1::CostParameters::Overheads& steps() { return *target.mutable_cost_parameters()->mutable_overheads(); }
};

/// Data sheet of an accelerator with the near memory of the TLF text, all of it available to slices.
Setting sixteenMegabytes() {
  Setting setting{coreOf(20000)};
  addLevel(setting.target, "L2", 16 << 20, 2000);
  addLevel(setting.target, "L3", 0, 100);
  setting.setLine(256);
  setting.steps().set_nest_cycles(2000);
  setting.steps().set_slice_cycles(1000);
  setting.steps().set_run_cycles(0);
  setting.target.mutable_cost_parameters()->mutable_memory()->set_resident_share(1);
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

/// Seconds of the nodes one by one from the farthest memory.
double apartSeconds(const RegionGraph& graph, const std::vector<int>& nodes, const Chip& chip,
                    const RegionLevels& levels) {
  double seconds = 0;
  for (const int node : nodes) seconds += planRegion(graph, {node}, chip, {{}, levels.far})->seconds;
  return seconds;
}

/// Sets of two or more nodes with a single result read outside, by enumeration.
std::set<std::vector<int>> closedSets(const RegionGraph& graph) {
  std::set<std::vector<int>> sets;
  const int count = static_cast<int>(graph.nodes.size());
  for (uint32_t set = 1; set < 1U << count; ++set) {
    std::vector<int> nodes;
    for (int n = 0; n < count; ++n)
      if (set >> n & 1) nodes.push_back(n);
    const bool closed = std::ranges::all_of(nodes, [&](int n) {
      if (n == nodes.back()) return true;
      const std::vector<int> readers = graph.consumersOf(graph.nodes[n].output);
      return std::ranges::count(graph.outputs, graph.nodes[n].output) == 0 && !readers.empty() &&
             std::ranges::all_of(readers, [&](int reader) { return std::ranges::count(nodes, reader) > 0; });
    });
    if (closed && nodes.size() > 1) sets.insert(nodes);
  }
  return sets;
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
// figures are illustrative) cannot fit into 16 MB; rows can.
TEST(RegionPlanner, PlansTheLargeResidualBlock) {
  const RegionGraph graph = residualBlock(32, 256, 64, 1024);
  const Setting setting = sixteenMegabytes();
  const Chip chip = setting.chip();
  const std::vector<Region> regions = possibleRegions(graph, chip, setting.levels, {.nodes = 12, .sets = 4096});
  std::vector<FusionSet> offers;
  for (const Region& region : regions) {
    EXPECT_LE(region.peak_bytes, chip.near().capacity_bytes);
    int64_t slices = 1, points = 1;
    const std::vector<int64_t>& shape = graph.tensors[graph.nodes[region.nodes.back()].output].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      slices *= (shape[d] + region.slice[d] - 1) / region.slice[d];
      points *= region.slice[d];
    }
    EXPECT_EQ(slices, region.slices);
    EXPECT_LT(points, shape[1] * shape[2] * shape[3]) << "a whole image does not fit";
    const double gain = apartSeconds(graph, region.nodes, chip, setting.levels) - region.seconds;
    if (gain > 0) offers.push_back({region.nodes, gain});
  }
  const Selection best = select(offers);
  EXPECT_EQ(best.optimality_gap, 0);
  std::vector<int> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_GT(best.gain, apartSeconds(graph, all, chip, setting.levels) / 2);
  EXPECT_TRUE(std::ranges::any_of(best.selected, [&](int taken) { return offers[taken].groups.size() >= 3; }));
}

TEST(RegionPlanner, SlicesOfManyImagesAreDearerWhereARunMayHaveOne) {
  RegionGraph graph = residualBlock(8, 64, 16, 32);
  Setting setting = sixteenMegabytes();
  setting.steps().set_nest_cycles(40);
  setting.steps().set_slice_cycles(20);
  std::vector<int> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  const auto whole = planRegion(graph, all, setting.chip(), setting.levels);
  ASSERT_TRUE(whole);
  EXPECT_GT(whole->slice[0], 1);
  GraphTensor& result = graph.tensors[graph.nodes.back().output];
  result.min_shape = result.shape;
  EXPECT_EQ(planRegion(graph, all, setting.chip(), setting.levels)->seconds, whole->seconds);
  result.min_shape[0] = 1;
  const auto ranged = planRegion(graph, all, setting.chip(), setting.levels);
  ASSERT_TRUE(ranged);
  EXPECT_EQ(ranged->slice[0], 1);
  EXPECT_GT(ranged->seconds, whole->seconds);
}

/// Layers of a convolution and a sum with the layer's input; the last sum is the result.
RegionGraph equalLayers(int layers, std::vector<int64_t> shape) {
  RegionGraphBuilder b;
  const int64_t channels = shape[1];
  int x = b.input("x", std::move(shape));
  for (int layer = 0; layer < layers; ++layer)
    x = b.elementwise("add", {b.convolution("conv", b.elementwise("relu", {x}), channels, 3, 1, 1), x});
  return b.finish({x});
}

TEST(RegionPlanner, PlansRegionsOfEqualLayersOnce) {
  const Setting setting = sixteenMegabytes();
  const Chip chip = setting.chip();
  const RegionGraph few = equalLayers(4, {1, 8, 16, 16}), many = equalLayers(40, {1, 8, 16, 16});
  RegionPlans of_few(few, chip, setting.levels), of_many(many, chip, setting.levels);
  const std::vector<Region> regions = possibleRegions(of_few), more = possibleRegions(of_many);
  EXPECT_GT(regions.size(), 0U);
  EXPECT_GT(more.size(), 8 * regions.size());
  EXPECT_EQ(of_many.planned(), of_few.planned());
  EXPECT_LT(of_many.planned(), static_cast<int>(more.size()) / 8);
  for (const Region& region : more) {
    const std::optional<Region> anew = planRegion(many, region.nodes, chip, setting.levels);
    ASSERT_TRUE(anew.has_value());
    EXPECT_EQ(region.nodes, anew->nodes);
    EXPECT_EQ(region.slice, anew->slice);
    EXPECT_EQ(region.seconds, anew->seconds);
    EXPECT_EQ(region.peak_bytes, anew->peak_bytes);
    EXPECT_EQ(region.traffic_bytes, anew->traffic_bytes);
    EXPECT_EQ(region.other_seconds, anew->other_seconds);
  }
}

TEST(RegionPlanner, PlansRegionsThatDifferInOneNumberApart) {
  const Setting setting = sixteenMegabytes();
  const Chip chip = setting.chip();
  using Change = void (*)(RegionGraph&);
  // Nodes 0, 1 and 3, 4 are the first two of equal layers; each change is to the second layer.
  for (const Change change : {Change([](RegionGraph& g) { g.nodes[4].flops_per_point = std::nextafter(144, 145); }),
                              Change([](RegionGraph& g) { g.nodes[4].inputs[0].access[2].window = 5; }),
                              Change([](RegionGraph& g) { g.nodes[4].kind = GraphNode::Kind::kGlobalReduction; }),
                              Change([](RegionGraph& g) { g.tensors[g.nodes[4].output].element_bytes = 2; }),
                              Change([](RegionGraph& g) { g.tensors[g.nodes[4].output].min_shape = {1, 8, 16, 4}; }),
                              Change([](RegionGraph& g) { g.outputs.push_back(g.nodes[3].output); })}) {
    RegionGraph graph = equalLayers(3, {1, 8, 16, 16});
    RegionPlans equal(graph, chip, setting.levels);
    equal.of({0, 1});
    equal.of({3, 4});
    EXPECT_EQ(equal.planned(), 1);
    change(graph);
    RegionPlans plans(graph, chip, setting.levels);
    plans.of({0, 1});
    plans.of({3, 4});
    EXPECT_EQ(plans.planned(), 2);
  }
}

TEST(RegionPlanner, LooksAtEverySetOfSmallGraphs) {
  std::mt19937 random(5);
  auto upTo = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  size_t seen = 0;
  for (int trial = 0; trial < 24; ++trial) {
    RegionGraphBuilder b;
    const int64_t channels = 4 * upTo(1, 8), size = 4 * upTo(2, 8);
    std::vector<int> values = {b.input("x", {upTo(1, 3), channels, size, size})};
    const int count = 6;
    for (int n = 0; n < count; ++n) {
      const int from = values[upTo(std::max<int64_t>(0, n - 1), n)];
      const std::string name = "n" + std::to_string(n);
      const int64_t kind = upTo(0, 3);
      if (kind == 0) {
        values.push_back(b.convolution(name, from, channels, 3, 1, 1));
      } else if (kind == 1) {
        values.push_back(b.convolution(name, from, channels, 1, 1, 0));
      } else {
        const int other = values[upTo(0, n)];
        values.push_back(b.elementwise(name, other == from ? std::vector<int>{from} : std::vector<int>{from, other}));
      }
    }
    const RegionGraph graph = b.finish({values.back()});
    ASSERT_TRUE(validate(graph).ok());
    Setting setting = sixteenMegabytes();
    setting.target.clear_memory();
    setting.levels = {{0, 1}, 2};
    addLevel(setting.target, "L1", 4096 * upTo(1, 4), 400);
    addLevel(setting.target, "L2", 65536, 200);
    addLevel(setting.target, "DRAM", 0, 10);
    setting.setLine(16);
    const Chip chip = setting.chip();
    std::map<std::vector<int>, double> wanted, found;
    for (const std::vector<int>& nodes : closedSets(graph))
      if (const auto region = planRegion(graph, nodes, chip, setting.levels)) wanted[nodes] = region->seconds;
    for (const Region& region : possibleRegions(graph, chip, setting.levels, {.nodes = count, .sets = 4096})) {
      EXPECT_FALSE(found.contains(region.nodes));
      found[region.nodes] = region.seconds;
    }
    EXPECT_EQ(found, wanted);
    seen += found.size();
  }
  EXPECT_GT(seen, 50);
}

TEST(RegionPlanner, HalosAreKeptWhereCoresHaveSeveralSlices) {
  RegionGraphBuilder b;
  const int x = b.input("x", {1, 64, 256, 256});
  const RegionGraph graph = b.finish({b.convolution("c2", b.convolution("c1", x, 64, 3, 1, 1), 64, 3, 1, 1)});
  Setting setting = sixteenMegabytes();
  setting.target.mutable_memory(0)->set_capacity_bytes(2 << 20);
  setting.steps().set_nest_cycles(40);  // a move costs as much as a nest
  setting.steps().set_slice_cycles(20);
  const auto one = planRegion(graph, {0, 1}, setting.chip(), setting.levels);
  ASSERT_TRUE(one);
  ASSERT_GE(one->halo_dim, 0);
  EXPECT_GT(one->sequence_length, 1);
  EXPECT_GT(one->other_seconds, one->seconds);
  // With a core per slice, waiting for another slice's rows loses.
  setting.target.mutable_units(0)->set_count(256);
  const auto many = planRegion(graph, {0, 1}, setting.chip(), setting.levels);
  ASSERT_TRUE(many);
  EXPECT_EQ(many->halo_dim, -1);
  EXPECT_EQ(many->sequence_length, 1);
  EXPECT_GT(many->recomputed_flops, one->recomputed_flops);
  // Windows of one point do not overlap.
  RegionGraphBuilder points;
  const int y = points.input("y", {1, 64, 256, 256});
  const RegionGraph apart =
      points.finish({points.convolution("c2", points.convolution("c1", y, 64, 1, 1, 0), 64, 1, 1, 0)});
  const auto region = planRegion(apart, {0, 1}, sixteenMegabytes().chip(), setting.levels);
  ASSERT_TRUE(region);
  EXPECT_EQ(region->halo_dim, -1);
  EXPECT_TRUE(std::isinf(region->other_seconds));
}

TEST(SliceInference, WhatFollowsNeedsWhatIsNew) {
  RegionGraphBuilder b;
  const int x = b.input("x", {1, 8, 64, 64});
  const RegionGraph graph = b.finish({b.convolution("c2", b.convolution("c1", x, 8, 3, 2, 1), 8, 3, 1, 1)});
  auto shapes = inferSlices(graph, {0, 1}, {1, 8, 4, 32}, 2);
  ASSERT_TRUE(shapes.has_value());
  // A slice needs 6 rows of c1's result. Rows 1 .. 5 are new; they need rows 2 * 1 - 1 ... of x.
  EXPECT_EQ(shapes->needed[graph.nodes[0].output][2], (Interval{2, 1, -1, 6}));
  EXPECT_EQ(shapes->needed[x][2], (Interval{2, 2, 1, 9}));
  EXPECT_EQ(shapes->added(graph.nodes[0].output, 2, 4), 1 * 8 * 4 * 32);
}

TEST(RegionPlanner, GlobalReductionsBoundRegions) {
  const RegionGraph graph = residualBlock(4, 64, 64, 64, /*pooled=*/true);
  const Setting setting = sixteenMegabytes();
  const std::vector<Region> regions = possibleRegions(graph, setting.chip(), setting.levels);
  EXPECT_FALSE(regions.empty());
  for (const Region& region : regions)
    for (int n : region.nodes) EXPECT_EQ(graph.nodes[n].kind, GraphNode::Kind::kLocal);
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

TEST(RegionPlanner, OverheadMakesThemDear) {
  const RegionGraph graph = residualBlock(1, 64, 16, 64);
  Setting setting = sixteenMegabytes();
  setting.target.mutable_memory(0)->set_capacity_bytes(60000);
  const std::vector<Region> cheap = possibleRegions(graph, setting.chip(), setting.levels);
  ASSERT_FALSE(cheap.empty());
  setting.steps().set_slice_cycles(1e9);
  for (const Region& region : possibleRegions(graph, setting.chip(), setting.levels))
    EXPECT_GT(region.seconds, apartSeconds(graph, region.nodes, setting.chip(), setting.levels));
}

TEST(RegionPlanner, OfManySetsTheSmallerOnesAreLookedAt) {
  RegionGraphBuilder b;
  const int x = b.input("x", {64, 1024});
  std::vector<int> branches;
  for (int i = 0; i < 16; ++i) branches.push_back(b.elementwise("n" + std::to_string(i), {x}));
  const RegionGraph graph = b.finish({b.elementwise("sum", branches)});
  const Setting setting = sixteenMegabytes();
  const Chip chip = setting.chip();
  // 16 pairs, 120 triples, 560 sets of four.
  EXPECT_EQ(possibleRegions(graph, chip, setting.levels, {.nodes = 4, .sets = 1000}).size(), 16 + 120 + 560);
  const std::vector<Region> some = possibleRegions(graph, chip, setting.levels, {.nodes = 4, .sets = 20});
  ASSERT_EQ(some.size(), 20);
  EXPECT_EQ(std::ranges::count_if(some, [](const Region& region) { return region.nodes.size() == 2; }), 16);
}

TEST(RegionGraph, FaultsAreNamed) {
  RegionGraph graph = residualBlock(1, 4, 4, 8);
  graph.nodes[3].inputs[0].access.pop_back();
  EXPECT_THAT(validate(graph).message(), testing::HasSubstr("node 'conv2': has 3 subscripts for 'relu1' of rank 4"));
}

}  // namespace
}  // namespace tessera::compiler::fusion
