// Chains and regions of groups: which are fused, which are declined and why, and that fusing changes no result.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/graph/graph.h"
#include "compiler/graph/slices/choose_fusions.h"
#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class FuseChainsTest : public PlanTest {
 protected:
  FuseChainsTest() { machine(64, 1 << 20); }

  /// Sets one core's operations per cycle and its own memory; beyond it are 32 MiB of shared memory and DRAM.
  void machine(double operations, int64_t near_bytes) {
    target_.set_name("test");
    target_.clear_memory();
    target_.clear_units();
    auto level = [&](const char* name, int64_t bytes, double bandwidth, int cores) {
      v1::MemoryLevel* memory = target_.add_memory();
      memory->set_name(name);
      memory->set_capacity_bytes(bytes);
      memory->set_bandwidth_bytes_per_cycle(bandwidth);
      memory->set_shared_by(cores);
    };
    level("L2", near_bytes, 64, 1);
    level("L3", 32 << 20, 16, 2);
    level("DRAM", 0, 5, 2);
    auto* unit = target_.add_units();
    unit->set_count(2);
    unit->set_frequency_ghz(2);
    unit->set_ops_per_cycle(operations);
  }

  static std::vector<v1::Decision> decisions(const PlannedGraph& planned, const std::string& kind) {
    std::vector<v1::Decision> found;
    for (const v1::Decision& decision : planned.plan.report().decisions()) {
      if (decision.kind() == kind) found.push_back(decision);
    }
    return found;
  }

  static std::string slices(const v1::Workload& workload) {
    std::string text;
    const v1::ChainTiling& chain = workload.slices();
    for (int i = 0; i < chain.order_size(); ++i) {
      text += (i == 0 ? "" : " ") + chain.order(i) + ":" + std::to_string(chain.tile(i));
    }
    return text;
  }

  /// softmax(q k scale) v; `keep` returns the weights as well.
  PlannedGraph attention(int64_t batch, int64_t rows, int64_t depth, int64_t keys, int64_t width, bool keep = false) {
    ModelBuilder b(context_);
    Value q = b.input({batch, rows, depth}), k = b.input({batch, depth, keys}), v = b.input({batch, keys, width});
    Value weights = b.softmax(b.batchMatmul(q, k));
    Value result = b.batchMatmul(weights, v);
    return keep ? check(b.finish({result, weights})) : check(b.finish({result}));
  }
};

TEST_F(FuseChainsTest, AttentionIsOneWorkloadInSlicesOfRows) {
  // 256 keys for 384 rows, 4 heads: the square matrices take 1.5 MiB, more than the core's memory.
  PlannedGraph planned = attention(4, 384, 32, 256, 32);
  ASSERT_EQ(planned.plan.steps_size(), 1);
  const v1::Workload& workload = planned.plan.workloads(0);
  const v1::ChainTiling& chain = workload.slices();
  ASSERT_GE(chain.order_size(), 1);
  EXPECT_EQ(chain.order(0), "d0");
  EXPECT_EQ(chain.tile(0), 1);
  EXPECT_EQ(chain.level(), "L2");
  // Without the square matrix only inputs and outputs move.
  EXPECT_LT(chain.predicted_bytes(), chain.unfused_bytes() / 2);
  // The first product with its softmax alone would also gain.
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 2);
  EXPECT_FALSE(all[0].taken());
  EXPECT_THAT(all[0].reason(), HasSubstr("belongs to a chain that gains more"));
  EXPECT_TRUE(all[1].taken());
  EXPECT_EQ(all[1].unit(), "us");
  EXPECT_LT(all[1].cost(), all[1].alternative_cost());
  EXPECT_THAT(all[1].reason(), AllOf(HasSubstr("slices in L2 take"), HasSubstr("one after another")));
  EXPECT_EQ(planned.plan.arena_bytes(), 0);
}

/// Slices of rows see 1 to 8 of the 8 pieces of 64 keys; price and reason say so.
// Slices are computed whole: with slices of many small heads, a run of one head would compute many.
TEST_F(FuseChainsTest, RunsThatMayBeSmallHaveSmallSlices) {
  const auto heads = [&](int64_t fewest) {
    ModelBuilder b(context_);
    Value q = b.input({16, 32, 64}), k = b.input({16, 64, 32}), v = b.input({16, 32, 64});
    ImportedModel model = b.finish({b.batchMatmul(b.softmax(b.batchMatmul(q, k)), v)});
    absl::StatusOr<PlannedGraph> planned =
        planGraph(fewest == 16 ? std::move(model) : withFewer(std::move(model), fewest), target_);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned.ok() ? planned->plan.workloads(0).slices().tile(0) : 0;
  };
  EXPECT_LT(heads(1), heads(16));
  EXPECT_EQ(heads(15), heads(16));
}

TEST_F(FuseChainsTest, WhatAMaskRemovesIsNotPaidFor) {
  auto decided = [&](bool causal, int64_t rows, int64_t keys) {
    ModelBuilder b(context_);
    Value scores = b.batchMatmul(b.input({4, rows, 32}), b.input({4, 32, keys}));
    Value result = b.batchMatmul(b.softmax(causal ? b.causal(scores) : scores), b.input({4, keys, 32}));
    auto all = decisions(check(b.finish({result})), "fuse-chain");
    EXPECT_EQ(all.size(), 2);
    return all.at(1);
  };
  const v1::Decision whole = decided(false, 512, 512), masked = decided(true, 512, 512);
  EXPECT_TRUE(masked.taken());
  EXPECT_THAT(masked.reason(), HasSubstr("% masked and skipped)"));
  EXPECT_THAT(whole.reason(), testing::Not(HasSubstr("masked")));
  EXPECT_LT(masked.cost(), 0.75 * whole.cost()) << masked.reason();
  EXPECT_GT(masked.cost(), 0.5 * whole.cost()) << masked.reason();
  // With one piece there is nothing to skip.
  EXPECT_THAT(decided(true, 64, 64).reason(), testing::Not(HasSubstr("masked")));
}

TEST_F(FuseChainsTest, OddSizesAndTransposedKeys) {
  ModelBuilder b(context_);
  // Heads are dimensions of rows, as exporters write it, with views and absorbed transposes between the products.
  Value x = b.input({37, 3 * 2 * 11});
  auto heads = [&](int64_t at) { return b.reshape(b.slice(x, 1, at * 22, 22), {37, 2, 11}); };
  Value q = b.transposed(heads(0), {1, 0, 2}), k = b.transposed(heads(1), {1, 2, 0});
  Value v = b.transposed(heads(2), {1, 0, 2});
  Value result = b.batchMatmul(b.softmax(b.batchMatmul(q, k)), v);
  PlannedGraph planned = check(b.finish({b.reshape(b.transposed(result, {1, 0, 2}), {37, 22})}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 2);
  EXPECT_TRUE(all[1].taken()) << all[1].reason();
}

TEST_F(FuseChainsTest, WhatIsReadElsewhereStays) {
  PlannedGraph planned = attention(4, 384, 32, 256, 32, /*keep=*/true);
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 2);
  EXPECT_FALSE(all[1].taken());
  EXPECT_THAT(all[1].reason(), HasSubstr("read by 1 more"));
  EXPECT_GT(planned.plan.steps_size(), 1);
  // One step makes the weights.
  EXPECT_TRUE(all[0].taken()) << all[0].reason();
}

/// A product with bias and residual and a normalization of its rows: rows that fit stay in the cache until they are
/// normalized.
TEST_F(FuseChainsTest, RowsOfAProductAreNormalizedBeforeTheyLeave) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    ModelBuilder b(context_);
    Value sum =
        b.add(b.addChannel(b.matmul(b.input({3001, 24}), b.weight({24, 96})), b.weight({96})), b.input({3001, 96}));
    Value result = b.layerNorm(sum);
    PlannedGraph planned = check(kept ? b.finish({b.relu(b.reshape(sum, {1, 3001, 96})), result}) : b.finish({result}));
    auto all = decisions(planned, "fuse-chain");
    ASSERT_EQ(all.size(), 1);
    EXPECT_TRUE(all[0].taken()) << all[0].reason();
    EXPECT_THAT(all[0].reason(), HasSubstr("slices in L2 take"));
    EXPECT_EQ(all[0].reason().find("written for others as well") != std::string::npos, kept);
    ASSERT_EQ(planned.plan.steps_size(), kept ? 2 : 1);
    EXPECT_EQ(slices(planned.plan.workloads(0)).substr(0, 3), "d0:");
    // A value with other readers is written once, and read by them.
    EXPECT_EQ(planned.plan.report().sum_intermediate_bytes(), kept ? 3001 * 96 * 4 : 0);
    if (!kept) EXPECT_LT(all[0].profit().saved_launches(), 2);
  }
}

/// A value with other readers must exist when they run, which fails if the normalization depends on them.
TEST_F(FuseChainsTest, WhatTheNormalizationWaitsForStaysAStep) {
  ModelBuilder b(context_);
  Value sum = b.matmul(b.input({900, 24}), b.weight({24, 64}));
  Value other = b.matmul(sum, b.weight({64, 64}));
  PlannedGraph planned = check(b.finish({b.add(b.softmax(sum), other), other}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 2);
  EXPECT_FALSE(all[0].taken());
  EXPECT_THAT(all[0].reason(), HasSubstr("has to be in memory as a whole"));
  // That reader's rows can wait for the normalization that is added to them.
  EXPECT_TRUE(all[1].taken()) << all[1].reason();
  EXPECT_EQ(planned.plan.steps_size(), 2);
}

/// With blocks of columns of a wide product, keeping sums in memory costs less than loading panels again.
TEST_F(FuseChainsTest, WideRowsAreNormalizedInAStepOfTheirOwn) {
  ModelBuilder b(context_);
  Value sum = b.matmul(b.input({256, 1024}), b.weight({1024, 2048}));
  auto planned = planGraph(b.finish({b.layerNorm(sum)}), target_, options_);
  ASSERT_TRUE(planned.ok()) << planned.status();
  auto all = decisions(*planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_FALSE(all[0].taken());
  EXPECT_GT(all[0].alternative_cost(), all[0].cost());
  EXPECT_THAT(all[0].reason(), HasSubstr("fused it would lose"));
}

/// The layers of a perceptron are one chain, with or without the normalization of the last one's rows.
TEST_F(FuseChainsTest, ThreeProductsInARow) {
  for (const bool normalized : {false, true}) {
    machine(/*operations=*/512, 1 << 20);
    ModelBuilder b(context_);
    Value x = b.relu(b.matmul(b.input({4001, 24}), b.weight({24, 96})));
    x = b.matmul(b.relu(b.matmul(x, b.weight({96, 48}))), b.weight({48, 32}));
    PlannedGraph planned = check(b.finish({normalized ? b.layerNorm(x) : x}));
    EXPECT_EQ(planned.plan.steps_size(), 1);
    EXPECT_EQ(planned.plan.arena_bytes(), 0);
    int taken = 0;
    for (const v1::Decision& decision : decisions(planned, "fuse-chain")) taken += decision.taken();
    EXPECT_EQ(taken, 1);
  }
}

/// Up to eight products, if shorter chains gain; no longer chains if no slices of three fit.
TEST_F(FuseChainsTest, LayersInARowAsLongAsTheyGain) {
  for (const bool gains : {true, false}) {
    machine(/*operations=*/512, gains ? 1 << 20 : 1 << 10);
    ModelBuilder b(context_);
    Value x = b.input({4001, 24});
    for (const auto& [depth, width] : {std::pair<int64_t, int64_t>{24, 36}, {36, 17}, {17, 33}, {33, 48}, {48, 20}})
      x = b.relu(b.matmul(x, b.weight({depth, width})));
    PlannedGraph planned = check(b.finish({x}));
    const auto all = decisions(planned, "fuse-chain");
    EXPECT_EQ(planned.plan.steps_size(), gains ? 1 : 5);
    size_t longest = 0;
    for (const v1::Decision& decision : all)
      longest = std::max<size_t>(longest, decision.has_profit() ? decision.profit().saved_launches() : 0);
    EXPECT_EQ(longest, gains ? 4 : 2);
  }
}

TEST_F(FuseChainsTest, ConvolutionsAndTheirPool) {
  machine(/*operations=*/2048, 1 << 20);
  options_.winograd = false;
  ModelBuilder b(context_);
  Value x = b.relu(b.conv(b.input({1, 16, 131, 97}), 32, {.kernel = 1}));
  x = b.relu(b.conv(x, 16, {.kernel = 3, .pad = 1}));
  PlannedGraph planned = check(b.finish({b.maxPool(x, {.kernel = 3, .stride = 2})}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 2);
  EXPECT_FALSE(all[0].taken());
  EXPECT_THAT(all[0].reason(), HasSubstr("belongs to a chain that gains more"));
  EXPECT_TRUE(all[1].taken()) << all[1].reason();
}

/// Blocks of sixteen channels are vectors: slices of eight would half-fill each.
TEST_F(FuseChainsTest, SlicesAreOfWholeVectors) {
  machine(/*operations=*/64, 1 << 18);
  target_.mutable_registers()->set_vector_bits(512);
  target_.mutable_registers()->set_vector_count(32);
  ModelBuilder b(context_);
  Value x = b.relu(b.conv(b.input({1, 240, 7, 7}), 960, {.kernel = 1, .groups = 3}));
  PlannedGraph planned = check(b.finish({b.globalAverage(x)}));
  for (const v1::Workload& workload : planned.plan.workloads())
    EXPECT_THAT(workload.slices().order(), Not(Contains("d2"))) << slices(workload);
}

/// Attention whose projection sums over the heads' product.
TEST_F(FuseChainsTest, AttentionWithItsProjection) {
  machine(/*operations=*/512, 1 << 20);
  ModelBuilder b(context_);
  Value q = b.input({2, 377, 16}), k = b.input({2, 16, 211}), v = b.input({2, 211, 16});
  Value heads = b.transposed(b.batchMatmul(b.softmax(b.batchMatmul(q, k)), v), {1, 0, 2});
  PlannedGraph planned = check(b.finish({b.matmul(b.reshape(heads, {377, 32}), b.weight({32, 40}))}));
  EXPECT_EQ(planned.plan.steps_size(), 1);
}

TEST_F(FuseChainsTest, RightOperandsAreNoChain) {
  ModelBuilder b(context_);
  Value x = b.input({64, 48}), y = b.input({48, 512}), z = b.input({96, 64});
  PlannedGraph planned = check(b.finish({b.matmul(z, b.matmul(x, y))}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_FALSE(all[0].taken());
  EXPECT_THAT(all[0].reason(), HasSubstr("right operand"));
}

TEST_F(FuseChainsTest, LayersOfAPerceptronThroughPackedPanels) {
  // Little arithmetic per element: the hidden layer dominates the cost.
  machine(/*operations=*/512, 1 << 20);
  ModelBuilder b(context_);
  Value x = b.input({6000, 24});
  Value hidden = b.relu(b.addChannel(b.matmul(x, b.weight({24, 96})), b.weight({96})));
  PlannedGraph planned = check(b.finish({b.matmul(hidden, b.weight({96, 32}))}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_TRUE(all[0].taken()) << all[0].reason();
  ASSERT_EQ(planned.plan.steps_size(), 1);
  EXPECT_THAT(slices(planned.plan.workloads(0)), HasSubstr("d0:"));
}

TEST_F(FuseChainsTest, ConvolutionsOverlapInSlicesOfRows) {
  machine(/*operations=*/2048, 1 << 20);
  ModelBuilder b(context_);
  Value x = b.input({1, 16, 96, 97});
  Value y = b.relu(b.conv(x, 32, {.kernel = 3, .stride = 1, .pad = 1}));
  PlannedGraph planned = check(b.finish({b.relu(b.conv(y, 16, {.kernel = 3, .stride = 2, .pad = 1}))}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_TRUE(all[0].taken()) << all[0].reason();
  EXPECT_THAT(all[0].reason(), HasSubstr("computed again"));
  bool sliced = false;
  for (const v1::Workload& workload : planned.plan.workloads()) sliced |= workload.has_slices();
  EXPECT_TRUE(sliced);
}

/// Two cores: each computes one halo, at the start of its part.
TEST_F(FuseChainsTest, HalosAreKeptWhereCoresHaveSeveralSlices) {
  machine(/*operations=*/512, 1 << 18);
  options_.winograd = false;
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 8, 96, 93}), 48, {.kernel = 3, .pad = 1}));
  PlannedGraph planned = check(b.finish({b.relu(b.conv(y, 8, {.kernel = 3, .pad = 1}))}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_TRUE(all[0].taken()) << all[0].reason();
  EXPECT_THAT(all[0].reason(), HasSubstr("(halos kept in parts of"));
  for (const v1::Workload& workload : planned.plan.workloads()) {
    if (!workload.has_slices()) continue;
    EXPECT_THAT(workload.slices().order(), ::testing::ElementsAre("d2", "d2"));
    const int64_t part = workload.slices().tile(0), slice = workload.slices().tile(1);
    EXPECT_EQ(part % slice, 0) << slices(workload);
    EXPECT_EQ((96 + part - 1) / part, 2) << slices(workload);
  }
}

TEST_F(FuseChainsTest, HalosAreComputedAgainWhereCoresWouldWait) {
  machine(/*operations=*/2048, 1 << 20);
  target_.mutable_units(0)->set_count(16);
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 16, 96, 97}), 32, {.kernel = 3, .stride = 1, .pad = 1}));
  PlannedGraph planned = check(b.finish({b.relu(b.conv(y, 16, {.kernel = 3, .stride = 2, .pad = 1}))}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_THAT(all[0].reason(), HasSubstr("(halos computed again, as parts"));
  for (const v1::Workload& workload : planned.plan.workloads())
    EXPECT_LE(workload.slices().order_size(), 1) << slices(workload);
}

TEST_F(FuseChainsTest, ChangesOfLayoutArePartsOfTheSlices) {
  machine(/*operations=*/256, 1 << 20);
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 32, 75, 73}), 64, {.kernel = 3, .stride = 2, .pad = 1}));
  PlannedGraph planned = check(b.finish({b.conv(y, 80, {.kernel = 1})}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_TRUE(all[0].taken()) << all[0].reason();
  EXPECT_THAT(all[0].reason(), HasSubstr("of layout or padding"));
  ASSERT_EQ(planned.plan.steps_size(), 1);
  EXPECT_EQ(planned.plan.arena_bytes(), 0);
}

TEST_F(FuseChainsTest, WhatIsMovedForOthersTooStaysAStep) {
  machine(/*operations=*/256, 1 << 20);
  ModelBuilder b(context_);
  Value padded = b.pad(b.input({1, 32, 75, 73}), 1);
  Value y = b.relu(b.conv(padded, 64, {.kernel = 3, .stride = 2}));
  PlannedGraph planned = check(b.finish({b.conv(y, 80, {.kernel = 1}), padded}));
  for (const v1::Decision& decision : decisions(planned, "fuse-chain"))
    EXPECT_THAT(decision.reason(), testing::Not(HasSubstr("of layout or padding")));
  EXPECT_GT(planned.plan.steps_size(), 1);
}

// C6 of table 3.6: 1x1, then 3x3, bound by arithmetic.
TEST_F(FuseChainsTest, DeclinesWhereArithmeticIsTheBound) {
  machine(/*operations=*/16, 1 << 20);
  options_.winograd = false;
  ModelBuilder b(context_);
  Value x = b.input({1, 64, 56, 56});
  Value y = b.relu(b.conv(x, 64, {.kernel = 1}));
  PlannedGraph planned = check(b.finish({b.conv(y, 64, {.kernel = 3, .pad = 1})}));
  auto all = decisions(planned, "fuse-chain");
  ASSERT_EQ(all.size(), 1);
  EXPECT_FALSE(all[0].taken()) << all[0].reason();
  EXPECT_THAT(all[0].reason(), AllOf(HasSubstr("us"), HasSubstr("one after another")));
  EXPECT_GT(all[0].alternative_cost(), 0);
}

TEST_F(FuseChainsTest, WinogradIsNotCut) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 64, 56, 56}), 64, {.kernel = 1}));
  auto planned = planGraph(b.finish({b.conv(y, 64, {.kernel = 3, .pad = 1})}), target_, options_);
  ASSERT_TRUE(planned.ok()) << planned.status();
  auto all = decisions(*planned, "fuse-chain");
  ASSERT_EQ(all.size(), 2);
  EXPECT_THAT(all[1].reason(), HasSubstr("stages")) << "what is moved around them is decided for itself";
  EXPECT_FALSE(all[0].taken());
  // Winograd's domain saves more than the intermediate's round trip to memory.
  EXPECT_GT(all[0].cost(), 0);
  EXPECT_GT(all[0].alternative_cost(), all[0].cost()) << all[0].reason();
  EXPECT_THAT(all[0].reason(), HasSubstr("written and read again"));
}

TEST_F(FuseChainsTest, WhatFollowsWinogradSaysSo) {
  for (const int64_t extent : {56, 31}) {
    ModelBuilder b(context_);
    Value y = b.relu(b.conv(b.input({1, 64, extent, extent}), 64, {.kernel = 3, .pad = 1}));
    auto planned = planGraph(b.finish({b.conv(y, 64, {.kernel = 1})}), target_, options_);
    ASSERT_TRUE(planned.ok()) << planned.status();
    auto all = decisions(*planned, "fuse-chain");
    ASSERT_EQ(all.size(), 2) << extent;
    EXPECT_THAT(all[1].reason(), HasSubstr("stages")) << "what is moved around them is decided for itself";
    EXPECT_FALSE(all[0].taken());
    EXPECT_THAT(all[0].reason(), HasSubstr("written and read again"));
  }
}

TEST_F(FuseChainsTest, RegionsStopAtGlobalReductions) {
  machine(/*operations=*/2048, 1 << 20);
  ModelBuilder b(context_);
  Value x = b.input({1, 16, 256, 256});
  Value y = b.maxPool(b.relu(b.conv(x, 16, {.kernel = 3, .stride = 1, .pad = 1})), {.kernel = 2, .stride = 2});
  PlannedGraph planned = check(b.finish({b.globalAverage(y)}));
  auto regions = decisions(planned, "tile-region");
  ASSERT_EQ(regions.size(), 1) << planned.plan.report().ShortDebugString();
  EXPECT_TRUE(regions[0].taken()) << regions[0].reason();
  EXPECT_THAT(regions[0].reason(), HasSubstr("groups in"));
  // The loop writes in place: nothing assembles slices.
  for (const v1::Workload& workload : planned.plan.workloads()) {
    EXPECT_THAT(workload.ir(), testing::Not(HasSubstr("tensor.concat")));
    EXPECT_THAT(workload.ir(), testing::Not(HasSubstr("insert_slice")));
  }
}

/// Four layers: any two or three consecutive ones are a chain, and the selected chains share no step.
TEST_F(FuseChainsTest, ChainsThatOverlapAreChosenTogether) {
  machine(/*operations=*/512, 1 << 20);
  ModelBuilder b(context_);
  Value x = b.input({4001, 24});
  int64_t depth = 24;
  for (const int64_t width : {96, 32, 80, 24}) {
    x = b.relu(b.matmul(x, b.weight({depth, width})));
    depth = width;
  }
  PlannedGraph planned = check(b.finish({x}));
  // With so few candidates the selection is exact, so no bound is reported.
  EXPECT_TRUE(decisions(planned, "fusion").empty());
  int taken = 0;
  double gain = 0, best = 0;
  for (const v1::Decision& decision : decisions(planned, "fuse-chain")) {
    taken += decision.taken();
    const double own = std::abs(decision.cost() - decision.alternative_cost());
    if (decision.taken()) gain += own;
    if (decision.taken() || decision.reason().find("gain more") != std::string::npos ||
        decision.reason().find("gains more") != std::string::npos)
      best = std::max(best, own);
  }
  EXPECT_GE(taken, 1);
  // The error margin of each price is one and a half per cent.
  EXPECT_GE(gain, 0.9 * best);
  EXPECT_LT(planned.plan.steps_size(), 4);
}

/// Pinning every choice as decided gives the same plan; a candidate that is pinned apart makes way for overlapping
/// ones.
TEST_F(FuseChainsTest, PinsDecideBeforeTheGainsDo) {
  const auto planned = [&] {
    machine(/*operations=*/512, 1 << 20);
    ModelBuilder b(context_);
    Value x = b.input({4001, 24});
    x = b.relu(b.matmul(x, b.weight({24, 96})));
    x = b.relu(b.matmul(x, b.weight({96, 32})));
    return check(b.finish({b.relu(b.matmul(x, b.weight({32, 80})))}));
  };
  const PlannedGraph free = planned();
  std::vector<v1::Choice> choices(free.plan.report().choices().begin(), free.plan.report().choices().end());
  options_.pins = choices;
  const PlannedGraph again = planned();
  ASSERT_EQ(again.plan.report().choices_size(), static_cast<int>(choices.size()));
  for (size_t i = 0; i < choices.size(); ++i)
    EXPECT_EQ(again.plan.report().choices(static_cast<int>(i)).SerializeAsString(), choices[i].SerializeAsString());
  EXPECT_EQ(again.plan.steps_size(), free.plan.steps_size());
  // Each chain that was not taken can be pinned instead.
  int tried = 0;
  for (const v1::Choice& wanted : choices) {
    if (wanted.kind() != "fuse-chain" || wanted.choice() == "fused") continue;
    v1::Choice pin = wanted;
    pin.set_choice("fused");
    options_.pins = {pin};
    const PlannedGraph other = planned();
    for (const v1::Decision& decision : decisions(other, "fuse-chain"))
      if (decision.place() == pin.place()) EXPECT_TRUE(decision.taken()) << decision.reason();
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

/// A value with two unrelated readers is computed in each of them and never stored.
TEST_F(FuseChainsTest, WhatSeveralReadIsComputedInEachWhereThatPays) {
  ModelBuilder b(context_);
  Value x = b.input({37, 64}), y = b.input({37, 64}), z = b.input({37, 64});
  Value shared = b.relu(x);
  PlannedGraph planned = check(b.finish({b.add(shared, y), b.add(b.sigmoid(z), shared)}));
  const auto found = decisions(planned, "repeat");
  ASSERT_EQ(found.size(), 1);
  EXPECT_TRUE(found[0].taken()) << found[0].reason();
  EXPECT_EQ(planned.plan.steps_size(), 2);
  const v1::FusionProfit& profit = found[0].profit();
  EXPECT_EQ(profit.kind(), "One+Many");
  EXPECT_EQ(profit.saved_launches(), 1);
  // Before, it was written once and read twice; now x is read once more.
  EXPECT_EQ(profit.saved_bytes(), 37 * 64 * 4 * (3 - 1));
  EXPECT_GT(profit.repeated_flops(), 0);
  EXPECT_GT(profit.profit_us(), 1);  // the launch alone
  for (const v1::Workload& workload : planned.plan.workloads())
    EXPECT_TRUE(workload.has_fusion()) << workload.summary();
}

TEST_F(FuseChainsTest, WhatEveryRowReadsIsComputedOnce) {
  ModelBuilder b(context_);
  Value scale = b.sigmoid(b.input({512})), x = b.input({2000, 512}), y = b.input({2000, 512});
  PlannedGraph planned = check(b.finish({b.mulChannel(x, scale), b.addChannel(y, scale)}));
  const auto found = decisions(planned, "repeat");
  ASSERT_EQ(found.size(), 1);
  EXPECT_FALSE(found[0].taken()) << found[0].reason();
  EXPECT_LT(found[0].profit().profit_us(), 0);
  EXPECT_THAT(found[0].reason(), HasSubstr("One+Many would lose at least"));
  EXPECT_EQ(planned.plan.steps_size(), 3);
}

TEST_F(FuseChainsTest, WhatTheCallerOrAProductReadsStays) {
  {
    ModelBuilder b(context_);
    Value shared = b.relu(b.input({37, 64}));
    PlannedGraph planned =
        check(b.finish({shared, b.add(shared, b.input({37, 64})), b.add(shared, b.input({37, 64}))}));
    EXPECT_TRUE(decisions(planned, "repeat").empty());
  }
  ModelBuilder b(context_);
  Value shared = b.relu(b.input({37, 64}));
  PlannedGraph planned = check(b.finish({b.matmul(shared, b.weight({64, 24})), b.add(shared, b.input({37, 64}))}));
  EXPECT_TRUE(decisions(planned, "repeat").empty());
}

TEST_F(FuseChainsTest, APinDecidesWhatIsRepeated) {
  const auto planned = [&] {
    ModelBuilder b(context_);
    Value shared = b.relu(b.input({37, 64}));
    return check(b.finish({b.add(shared, b.input({37, 64})), b.add(b.sigmoid(b.input({37, 64})), shared)}));
  };
  PlannedGraph free = planned();
  ASSERT_EQ(free.plan.report().choices_size(), 1);
  v1::Choice pin = free.plan.report().choices(0);
  EXPECT_EQ(pin.kind(), "repeat");
  EXPECT_EQ(pin.choice(), "fused");
  pin.set_choice("apart");
  options_.pins = {pin};
  PlannedGraph pinned = planned();
  EXPECT_EQ(pinned.plan.steps_size(), 3);
  EXPECT_THAT(decisions(pinned, "repeat").at(0).reason(), HasSubstr("; pinned"));
}

/// A chain is reported with the gain at the chip's peak next to the analysis's price.
TEST_F(FuseChainsTest, AChainsProfitIsAtMostWhatThePeakAllows) {
  PlannedGraph planned = attention(4, 384, 32, 256, 32);
  const v1::FusionProfit profit = decisions(planned, "fuse-chain").at(1).profit();
  EXPECT_EQ(profit.kind(), "Many+Many");
  // The matrix of weights is written and read twice: softmax is a separate step.
  EXPECT_EQ(profit.saved_bytes(), 4.0 * 384 * 256 * 4 * 4);
  EXPECT_EQ(profit.saved_launches(), 2);
  EXPECT_GT(profit.separate_us(), profit.fused_us());
  EXPECT_EQ(planned.plan.workloads(0).fusion().kind(), "Many+Many");
}

}  // namespace
}  // namespace tessera::compiler
