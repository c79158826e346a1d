#include "compiler/graph/winograd/winograd.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "compiler/graph/winograd/winograd_algorithm.h"
#include "compiler/graph/winograd/winograd_cost_model.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

/// A machine whose memory is free and whose arithmetic is slow: the algorithm with the fewest operations wins.
v1::Target slowArithmetic() {
  v1::Target target;
  target.mutable_registers()->set_vector_bits(512);
  target.mutable_registers()->set_vector_count(32);
  target.add_units()->set_ops_per_cycle(0.25);
  target.add_memory()->set_bandwidth_bytes_per_cycle(1e9);
  return target;
}

/// A processor core as built-in targets describe it.
v1::Target serverCore() {
  v1::Target target = slowArithmetic();
  target.mutable_units(0)->set_ops_per_cycle(64);
  target.mutable_units(0)->set_frequency_ghz(2.7);
  target.clear_memory();
  for (auto [capacity, bandwidth] : {std::pair(1 << 20, 64), std::pair(40 << 20, 16), std::pair(0, 5)}) {
    v1::MemoryLevel* level = target.add_memory();
    level->set_capacity_bytes(capacity);
    level->set_shared_by(capacity > (1 << 20) ? 28 : 1);
    level->set_bandwidth_bytes_per_cycle(bandwidth);
  }
  return target;
}

std::string algorithmOf(const PlannedGraph& planned, const std::string& text) {
  for (const v1::Workload& workload : planned.plan.workloads()) {
    if (workload.summary().find(text) != std::string::npos) return workload.algorithm();
  }
  return "no workload \"" + text + "\"";
}

struct Case {
  int64_t batch, inputs, outputs, height, width;
  int64_t dilation = 1;
};

class WinogradConvolution : public PlanTest, public ::testing::WithParamInterface<Case> {};

// A residual block's second convolution, followed by bias, sum and ReLU, with a padded reader.
TEST_P(WinogradConvolution, MatchesPlainLoops) {
  const Case& c = GetParam();
  target_ = slowArithmetic();
  ModelBuilder b(context_);
  Value x = b.input({c.batch, c.inputs, c.height, c.width});
  const ModelBuilder::Window window{.kernel = 3, .pad = c.dilation, .dilation = c.dilation};
  Value first = b.relu(b.batchNorm(b.conv(x, c.outputs, window)));
  Value second = b.relu(b.add(first, b.batchNorm(b.conv(first, c.outputs, window))));
  PlannedGraph planned = check(b.finish({b.conv(second, 16, {.kernel = 3, .stride = 2, .pad = 1})}));
  int rewritten = 0;
  for (const v1::RewriteCount& rewrite : planned.plan.report().rewrites()) {
    if (rewrite.name() == "winograd") rewritten = rewrite.count();
  }
  EXPECT_EQ(rewritten, 2);
  EXPECT_TRUE(algorithmOf(planned, "winograd").starts_with("winograd-"));
}

INSTANTIATE_TEST_SUITE_P(Shapes, WinogradConvolution,
                         ::testing::Values(Case{1, 32, 32, 8, 8}, Case{2, 32, 48, 12, 4}, Case{1, 48, 32, 7, 7},
                                           Case{3, 32, 32, 5, 9}, Case{1, 64, 32, 3, 13}, Case{2, 32, 64, 3, 2}));

// All channels in one block, of the input, of the output, or of both.
INSTANTIATE_TEST_SUITE_P(OneBlock, WinogradConvolution,
                         ::testing::Values(Case{1, 16, 16, 8, 8}, Case{2, 16, 64, 7, 7}, Case{1, 64, 16, 5, 9},
                                           Case{3, 16, 16, 3, 13}, Case{1, 12, 20, 7, 9}, Case{2, 17, 33, 5, 6},
                                           Case{1, 100, 36, 8, 8}, Case{1, 16, 48, 13, 7, 2},
                                           Case{2, 32, 16, 11, 17, 3}, Case{1, 16, 16, 28, 28, 4}));

// Dilated: neighbouring results belong to different blocks, and the last rows and columns of some plain convolutions
// are empty.
INSTANTIATE_TEST_SUITE_P(Dilated, WinogradConvolution,
                         ::testing::Values(Case{1, 32, 32, 16, 16, 2}, Case{2, 32, 48, 13, 7, 2},
                                           Case{1, 48, 32, 11, 17, 3}, Case{1, 32, 32, 28, 28, 4}));

/// A private cache for one row of blocks of 28 columns and 32 channels.
v1::Target smallCache() {
  v1::Target target = slowArithmetic();
  target.clear_memory();
  for (auto [capacity, bandwidth] : {std::pair(80 << 10, 1e6), std::pair(1 << 30, 10.0), std::pair(0, 10.0)}) {
    v1::MemoryLevel* level = target.add_memory();
    level->set_capacity_bytes(capacity);
    level->set_shared_by(capacity == 80 << 10 ? 1 : 2);
    level->set_bandwidth_bytes_per_cycle(bandwidth);
  }
  return target;
}

// Stages run slice by slice, and borders end at slice ends.
TEST_F(PlanTest, WhatDoesNotFitRunsInSlices) {
  target_ = smallCache();
  ModelBuilder b(context_);
  Value x = b.input({1, 32, 28, 28});
  Value first = b.relu(b.conv(x, 32, {.kernel = 3, .pad = 1}));
  Value second = b.relu(b.add(first, b.conv(first, 32, {.kernel = 3, .pad = 1})));
  PlannedGraph planned = check(b.finish({b.conv(second, 16, {.kernel = 3, .stride = 2, .pad = 1})}));
  int sliced = 0;
  for (const v1::Workload& workload : planned.plan.workloads()) {
    if (!workload.has_slices()) continue;
    ++sliced;
    EXPECT_EQ(workload.slices().order(1), "d2");
    EXPECT_EQ(workload.slices().tile(1), 4);
    EXPECT_NE(workload.summary().find("pad to 1x2x33x30x16"), std::string::npos) << workload.summary();
  }
  EXPECT_EQ(sliced, 2);
}

/// One convolution between NCHW input and output.
class BetweenPlanes : public PlanTest {
 protected:
  BetweenPlanes() {
    target_ = smallCache();
    target_.mutable_units(0)->set_frequency_ghz(2.7);
    // The test's tensors are small: fixed costs of steps would dominate.
    v1::CostParameters::Overheads& steps = *target_.mutable_cost_parameters()->mutable_overheads();
    steps.set_nest_cycles(0);
    steps.set_run_cycles(0);
  }
  ImportedModel model(const Case& c) {
    ModelBuilder b(context_);
    Value x = b.input({c.batch, c.inputs, c.height, c.width});
    return b.finish({b.relu(b.conv(x, c.outputs, {.kernel = 3, .pad = 1}))});
  }
  static std::vector<v1::Decision> chains(const PlannedGraph& planned) {
    std::vector<v1::Decision> found;
    for (const v1::Decision& decision : planned.plan.report().decisions())
      if (decision.kind() == "fuse-chain") found.push_back(decision);
    return found;
  }
};
class WinogradBetweenPlanes : public BetweenPlanes, public ::testing::WithParamInterface<Case> {};

// Changes of layout and the padding are no separate steps: slices move their input and output.
TEST_P(WinogradBetweenPlanes, ChangesOfLayoutRideInTheSlices) {
  const PlannedGraph planned = check(model(GetParam()));
  ASSERT_EQ(planned.plan.steps_size(), 1) << planned.plan.workloads(0).summary();
  const v1::Workload& workload = planned.plan.workloads(0);
  EXPECT_TRUE(workload.algorithm().starts_with("winograd-"));
  ASSERT_EQ(workload.slices().order_size(), 2);
  EXPECT_EQ(workload.slices().order(1), GetParam().outputs == 32 ? "d3" : "d2");  // rows of [N, K/k, k, H, W]
  ASSERT_EQ(chains(planned).size(), 1);
  EXPECT_TRUE(chains(planned)[0].taken());
  EXPECT_LT(chains(planned)[0].cost(), chains(planned)[0].alternative_cost());
}

// Channels in several blocks and in one; images that end within blocks; rows that are no whole vectors.
INSTANTIATE_TEST_SUITE_P(Shapes, WinogradBetweenPlanes,
                         ::testing::Values(Case{1, 32, 32, 28, 28}, Case{2, 32, 32, 13, 27}, Case{1, 16, 16, 37, 61},
                                           Case{1, 20, 36, 25, 31}));

// A pin "apart" covers all forms; if code generation refuses a form, another one is used.
TEST_F(BetweenPlanes, PinsAndRefusalsAreFollowed) {
  const auto planned = [&] {
    auto planned = planGraph(model({1, 32, 32, 28, 28}), target_, options_);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return *std::move(planned);
  };
  const PlannedGraph first = planned();
  const v1::GraphReport& report = first.plan.report();
  options_.pins.assign(report.choices().begin(), report.choices().end());
  EXPECT_EQ(planned().plan.SerializeAsString(), first.plan.SerializeAsString());
  v1::Choice& pin = *std::ranges::find(options_.pins, "fuse-chain", &v1::Choice::kind);
  pin.set_choice("apart");
  const PlannedGraph apart = planned();
  EXPECT_EQ(apart.plan.steps_size(), 3);
  ASSERT_EQ(chains(apart).size(), 1);
  EXPECT_NE(chains(apart)[0].reason().find("; pinned"), std::string::npos) << chains(apart)[0].reason();

  options_.pins.clear();
  options_.find_refused = [&](const PlannedGraph& graph) -> absl::StatusOr<std::vector<GraphChoices::Refused>> {
    std::vector<GraphChoices::Refused> refused;
    for (const auto& [hash, choices] : graph.fused)
      for (const v1::Choice& choice : choices)
        if (choice.place() == pin.place()) refused.push_back({choice, "a stranger to it"});
    return refused;
  };
  const PlannedGraph others = planned();
  EXPECT_EQ(others.plan.steps_size(), 2);
  ASSERT_EQ(chains(others).size(), 1);
  EXPECT_TRUE(chains(others)[0].taken());
}

// A tensor that fits the cache as a whole is not sliced, so nothing can be fused into slices.
TEST_F(BetweenPlanes, StagesThatAreNotSlicedAreLeftAlone) {
  const PlannedGraph planned = check(model({1, 32, 32, 7, 7}));
  EXPECT_EQ(planned.plan.steps_size(), 3);
  ASSERT_EQ(chains(planned).size(), 1);
  EXPECT_FALSE(chains(planned)[0].taken());
  EXPECT_NE(chains(planned)[0].reason().find("not cut into slices"), std::string::npos) << chains(planned)[0].reason();
}

// An elementwise operation that cannot compute whole blocks, because its other operand ends with the image.
TEST_F(BetweenPlanes, WhatFollowsRidesAsWell) {
  ModelBuilder b(context_);
  Value x = b.input({1, 32, 27, 25});
  const PlannedGraph planned = check(b.finish({b.relu(b.add(x, b.conv(x, 32, {.kernel = 3, .pad = 1})))}));
  ASSERT_FALSE(chains(planned).empty());
  for (const v1::Step& step : planned.plan.steps()) {
    const v1::Workload& workload = planned.plan.workloads(step.workload());
    if (workload.algorithm().starts_with("winograd-")) {
      EXPECT_NE(workload.summary().find("transpose"), std::string::npos) << workload.summary();
    }
  }
}

TEST_F(PlanTest, WhatFollowsJoinsTheStagesThoughBlocksAreCut) {
  target_ = slowArithmetic();
  ModelBuilder b(context_);
  Value x = b.input({1, 32, 7, 9});
  Value y = b.relu(b.batchNorm(b.conv(x, 32, {.kernel = 3, .pad = 1})));
  PlannedGraph planned = check(b.finish({b.conv(y, 16, {.kernel = 3, .stride = 2, .pad = 1})}));
  int moved = 0;
  for (const v1::RewriteCount& rewrite : planned.plan.report().rewrites())
    if (rewrite.name() == "cut-behind-followers") moved = rewrite.count();
  EXPECT_EQ(moved, 1);
  const auto joined = std::ranges::count_if(planned.plan.workloads(), [](const v1::Workload& workload) {
    return workload.summary().find("winograd") != std::string::npos &&
           workload.summary().find("relu") != std::string::npos;
  });
  EXPECT_EQ(joined, 1) << planned.plan.workloads(0).summary();
}

TEST_F(PlanTest, OtherConvolutionsStayDirect) {
  target_ = slowArithmetic();
  ModelBuilder b(context_);
  Value x = b.input({1, 32, 12, 12});
  Value y = b.relu(b.conv(x, 32, {.kernel = 3, .stride = 2, .pad = 1}));
  y = b.relu(b.conv(y, 32, {.kernel = 5, .pad = 2}));
  y = b.relu(b.conv(y, 32, {.kernel = 3, .pad = 1, .groups = 2}));
  y = b.relu(b.depthwise(y, {.kernel = 3, .pad = 1}));
  PlannedGraph planned = check(b.finish({b.conv(y, 32, {.kernel = 1})}));
  for (const v1::Workload& workload : planned.plan.workloads()) {
    EXPECT_FALSE(workload.algorithm().starts_with("winograd")) << workload.summary();
  }
}

TEST_F(PlanTest, WinogradIsDeclinedWithFigures) {
  target_ = serverCore();
  ModelBuilder b(context_);
  // Four blocks: loading the transformed filters, four times as large, would not pay for so few.
  Value x = b.input({1, 256, 7, 7});
  absl::StatusOr<PlannedGraph> planned =
      planGraph(b.finish({b.relu(b.conv(x, 256, {.kernel = 3, .pad = 1}))}), target_);
  ASSERT_TRUE(planned.ok()) << planned.status();
  std::vector<v1::Decision> decisions;
  for (const v1::Decision& decision : planned->plan.report().decisions()) {
    if (decision.kind() == "algorithm") decisions.push_back(decision);
  }
  ASSERT_EQ(decisions.size(), 1);
  const v1::Decision& decision = decisions[0];
  EXPECT_FALSE(decision.taken());
  EXPECT_GT(decision.alternative_cost(), 0.9 * decision.cost());
  EXPECT_EQ(algorithmOf(*planned, "conv2d"), "direct");
}

/// A convolution of eight images, or of a range from `fewest` to eight.
ImportedModel convolutionOf(mlir::MLIRContext& context, int64_t fewest) {
  ModelBuilder b(context);
  ImportedModel model = b.finish({b.relu(b.conv(b.input({8, 512, 3, 3}), 512, {.kernel = 3, .pad = 1}))});
  return fewest == 8 ? std::move(model) : withFewer(std::move(model), fewest);
}

/// The decision on the first convolution.
std::pair<v1::Decision, v1::Choice> settledOf(const v1::GraphReport& report) {
  const auto decision = std::ranges::find(report.decisions(), "algorithm", &v1::Decision::kind);
  const auto choice = std::ranges::find(report.choices(), "algorithm", &v1::Choice::kind);
  EXPECT_NE(decision, report.decisions().end());
  EXPECT_NE(choice, report.choices().end());
  return decision == report.decisions().end() || choice == report.choices().end()
             ? std::pair<v1::Decision, v1::Choice>()
             : std::pair(*decision, *choice);
}

// Convolutions of few channels on large images: slices with neighbours and Winograd's domain gain about the same, and
// one selection compares both. Two consecutive 3x3 convolutions gain more in Winograd's domain; between 1x1
// convolutions, whose results are four times as large, slices gain more.
TEST_F(PlanTest, SlicesAndWinogradsDomainAreOneChoice) {
  target_ = serverCore();
  target_.mutable_memory(1)->set_bandwidth_bytes_per_cycle(6);
  const auto reportOf = [&](bool bottleneck, fusion::FusionPolicy fusion_policy) {
    ModelBuilder b(context_);
    const int64_t channels = bottleneck ? 64 : 16;
    Value x = b.input({1, channels, 256, 256}), y = x;
    if (bottleneck) y = b.relu(b.conv(y, 16, {.kernel = 1}));
    y = b.relu(b.conv(y, 16, {.kernel = 3, .pad = 1}));
    y = b.relu(b.conv(y, channels, {.kernel = bottleneck ? 1 : 3, .pad = bottleneck ? 0 : 1}));
    auto planned = planGraph(b.finish({y}), target_, {.fusion_policy = fusion_policy});
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned.ok() ? planned->plan.report() : v1::GraphReport();
  };
  using ::testing::HasSubstr;
  {
    const auto [decision, choice] = settledOf(reportOf(false, fusion::FusionPolicy::kWhereItPays));
    EXPECT_EQ(choice.choice(), "winograd-4x4");
    EXPECT_THAT(decision.reason(), HasSubstr("slices that it could share with its neighbours gain less together"));
  }
  {
    const v1::GraphReport report = reportOf(true, fusion::FusionPolicy::kWhereItPays);
    const auto [decision, choice] = settledOf(report);
    EXPECT_EQ(choice.choice(), "direct");
    const auto chain = std::ranges::find_if(
        report.decisions(), [](const v1::Decision& each) { return each.kind() == "fuse-chain" && each.taken(); });
    ASSERT_NE(chain, report.decisions().end());
    EXPECT_THAT(decision.reason(), HasSubstr("directly it is part of " + chain->place()));
    // Decided separately, it would be the other way: a tune job measures both.
    ASSERT_EQ(choice.alternatives_size(), 2);
    EXPECT_EQ(choice.alternatives(1).choice(), "winograd-4x4");
    EXPECT_LT(choice.alternatives(1).cost_us(), choice.cost_us());
  }
  EXPECT_EQ(settledOf(reportOf(true, fusion::FusionPolicy::kNever)).second.choice(), "winograd-4x4") << "no slices";
}

// Filters in Winograd's domain are larger: eight images pay for loading them, one does not.
TEST_F(PlanTest, OfARangeTheWayThatIsNeverMuchSlowerIsTaken) {
  for (const auto& [fewest, algorithm] :
       {std::pair(8, "winograd-2x2"), std::pair(7, "winograd-2x2"), std::pair(1, "direct")}) {
    absl::StatusOr<PlannedGraph> planned = planGraph(convolutionOf(context_, fewest), serverCore());
    ASSERT_TRUE(planned.ok()) << planned.status();
    EXPECT_EQ(algorithmOf(*planned, "conv2d"), algorithm) << fewest;
    for (const v1::Decision& decision : planned->plan.report().decisions())
      if (decision.kind() == "algorithm")
        EXPECT_EQ(decision.reason().find("of runs of") != std::string::npos, fewest < 8) << decision.reason();
  }
}

TEST_F(PlanTest, WinogradCanBeSwitchedOff) {
  ModelBuilder b(context_);
  Value x = b.input({1, 32, 8, 8});
  absl::StatusOr<PlannedGraph> planned =
      planGraph(b.finish({b.relu(b.conv(x, 32, {.kernel = 3, .pad = 1}))}), slowArithmetic(), {.winograd = false});
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(algorithmOf(*planned, "conv2d"), "direct");
}

constexpr double kLargeNetwork = 1e9;  // bytes of all weights

TEST(WinogradCostModel, MoreChannelsPayMore) {
  const Chip chip(serverCore());
  const WinogradCostModel costs(chip, kLargeNetwork);
  auto gain = [&](int64_t channels, int64_t size) {
    const ConvolutionShape shape{1, channels, channels, size, size};
    return costs.direct(shape) / costs.of(shape, winogradAlgorithms()[1]).total();
  };
  EXPECT_LT(gain(16, 56), gain(64, 56));
  EXPECT_LT(gain(64, 56), gain(128, 56));
  EXPECT_LT(gain(512, 7), 1);
}

// Loading small layers' weights from memory takes longer than their arithmetic. The weights of a small network stay in
// a near cache.
TEST(WinogradCostModel, WeightsOfASmallNetworkAreNear) {
  const Chip chip(serverCore());
  const ConvolutionShape shape{1, 64, 64, 8, 8};
  auto gain = [&](double weights_bytes) {
    const WinogradCostModel costs(chip, weights_bytes);
    return costs.direct(shape) / costs.of(shape, winogradAlgorithms()[0]).total();
  };
  EXPECT_LT(gain(kLargeNetwork), 1);
  EXPECT_GT(gain(64 * 64 * 36), 1.1);
}

// 14 rows of blocks: three of them fit next to the filters, which would leave most of many cores without work.
TEST(WinogradCostModel, SlicesAreDealtToAllCores) {
  const ConvolutionShape shape{.batch = 1, .inputs = 64, .outputs = 64, .height = 56, .width = 56};
  auto priced = [&](int cores, int64_t images) {
    v1::Target target = serverCore();
    target.mutable_units(0)->set_count(cores);
    target.mutable_memory(0)->set_capacity_bytes(2 << 20);
    ConvolutionShape these = shape;
    these.batch = images;
    return WinogradCostModel(Chip(target), kLargeNetwork).of(these, winogradAlgorithms()[1]);
  };
  EXPECT_EQ(priced(1, 1).slice_rows, 3);
  EXPECT_EQ(priced(14, 1).slice_rows, 1);
  EXPECT_EQ(priced(28, 1).slice_rows, 0);
  // No core is idle if each has its own images.
  EXPECT_EQ(priced(28, 28).slice_rows, 3);
  EXPECT_LT(priced(1, 1).total(), priced(28, 1).total());
  // Seven cores with two rows each: the time of one core, with the filters loaded more often.
  EXPECT_LT(priced(7, 1).total(), 1.05 * priced(1, 1).total());
}

/// Largest error of one-channel blocks in floats against doubles, relative to the largest result.
class Algorithm : public ::testing::TestWithParam<size_t> {};

TEST_P(Algorithm, IsExactUpToRounding) {
  const WinogradAlgorithm& algorithm = winogradAlgorithms()[GetParam()];
  const int64_t t = algorithm.side(), m = algorithm.results;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> values(-1, 1);
  std::vector<double> d(t * t), g(9), product(t * t);
  for (double& value : d) value = values(random);
  for (double& value : g) value = values(random);
  auto both = [](llvm::ArrayRef<float> matrix, int64_t rows, int64_t columns, const std::vector<double>& in) {
    std::vector<double> out(rows * rows, 0);
    for (int64_t p = 0; p < rows; ++p) {
      for (int64_t q = 0; q < rows; ++q) {
        for (int64_t i = 0; i < columns; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            out[p * rows + q] += double{matrix[p * columns + i]} * matrix[q * columns + j] * in[i * columns + j];
          }
        }
      }
    }
    return out;
  };
  const std::vector<double> u = both(algorithm.filter, t, 3, g), v = both(algorithm.input, t, t, d);
  for (int64_t i = 0; i < t * t; ++i) product[i] = u[i] * v[i];
  const std::vector<double> y = both(algorithm.output, m, t, product);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      double direct = 0;
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t s = 0; s < 3; ++s) direct += d[(i + r) * t + j + s] * g[r * 3 + s];
      }
      // G is rounded to single precision.
      EXPECT_NEAR(y[i * m + j], direct, 1e-5);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Algorithm, ::testing::Range<size_t>(0, 2));

}  // namespace
}  // namespace tessera::compiler
