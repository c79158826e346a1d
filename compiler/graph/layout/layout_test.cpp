#include "compiler/graph/layout/layout.h"

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"

namespace tessera::compiler {
namespace {

using LayoutTest = PlanTest;
using mlir::Value;

/// conv - batch norm - relu, then a second convolution, in every combination of the parameters.
struct ConvCase {
  int64_t inputs, outputs, size;
  ModelBuilder::Window window;
};

class ConvolutionTest : public PlanTest, public ::testing::WithParamInterface<ConvCase> {};

TEST_P(ConvolutionTest, MatchesPlainLoops) {
  const ConvCase& c = GetParam();
  ModelBuilder b(context_);
  Value x = b.input({2, c.inputs, c.size, c.size});
  Value first = b.relu(b.batchNorm(b.conv(x, c.outputs, c.window)));
  Value second = b.relu(b.addChannel(b.conv(first, 24, {.kernel = 1}), b.weight({24})));
  check(b.finish({second}));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvolutionTest,
                         ::testing::Values(ConvCase{3, 64, 13, {.kernel = 7, .stride = 2, .pad = 3}},
                                           ConvCase{64, 64, 7, {.kernel = 3, .pad = 1}},
                                           ConvCase{24, 17, 7, {.kernel = 3, .stride = 2, .pad = 1}},
                                           ConvCase{17, 24, 13, {.kernel = 3, .dilation = 2}},
                                           ConvCase{5, 3, 7, {.kernel = 3, .pad = 1}},
                                           ConvCase{64, 5, 1, {.kernel = 1}},
                                           ConvCase{16, 32, 13, {.kernel = 5, .stride = 2, .pad = 2}},
                                           ConvCase{32, 64, 7, {.kernel = 3, .pad = 1, .groups = 2}},
                                           ConvCase{24, 24, 7, {.kernel = 3, .pad = 1, .groups = 3}},
                                           ConvCase{48, 96, 7, {.kernel = 3, .stride = 2, .pad = 1, .groups = 3}},
                                           ConvCase{60, 30, 7, {.kernel = 1, .groups = 3}},
                                           ConvCase{14, 21, 9, {.kernel = 3, .pad = 1, .groups = 7}}));

TEST_F(LayoutTest, ResidualBlocksNeedNoTransforms) {
  ModelBuilder b(context_);
  Value x = b.input({1, 3, 20, 20});
  Value y = b.relu(b.batchNorm(b.conv(x, 32, {.kernel = 7, .stride = 2, .pad = 3})));
  y = b.maxPool(y, {.kernel = 3, .stride = 2, .pad = 1});
  Value z = b.relu(b.batchNorm(b.conv(y, 32, {.kernel = 3, .pad = 1})));
  z = b.batchNorm(b.conv(z, 32, {.kernel = 3, .pad = 1}));
  y = b.relu(b.add(y, z));
  z = b.relu(b.batchNorm(b.conv(y, 64, {.kernel = 3, .stride = 2, .pad = 1})));
  z = b.batchNorm(b.conv(z, 64, {.kernel = 3, .pad = 1}));
  y = b.relu(b.add(b.batchNorm(b.conv(y, 64, {.kernel = 1, .stride = 2})), z));
  y = b.reshape(b.globalAverage(y), {1, 64});
  y = b.addChannel(b.matmul(y, b.weight({1000, 64}), true), b.weight({1000}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
  // Batch normalization becomes a bias, without a multiplication outside the convolutions.
  for (const v1::Workload& workload : planned.plan.workloads()) {
    EXPECT_EQ(workload.summary().find("mul +"), std::string::npos) << workload.summary();
  }
}

TEST_F(LayoutTest, DepthwiseConvolutionsStayBlocked) {
  ModelBuilder b(context_);
  Value x = b.input({1, 3, 16, 16});
  Value y = b.relu(b.batchNorm(b.conv(x, 32, {.kernel = 3, .stride = 2, .pad = 1})));
  y = b.relu(b.batchNorm(b.depthwise(y, {.kernel = 3, .pad = 1})));
  y = b.relu(b.batchNorm(b.conv(y, 24, {.kernel = 1})));
  y = b.relu(b.batchNorm(b.depthwise(y, {.kernel = 3, .stride = 2, .pad = 1})));
  y = b.globalAverage(b.conv(y, 48, {.kernel = 1}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
}

TEST_F(LayoutTest, ConcatenationOfEqualBlocksStaysBlocked) {
  ModelBuilder b(context_);
  Value x = b.input({1, 3, 9, 9});
  Value y = b.relu(b.conv(x, 16, {.kernel = 3}));
  Value left = b.relu(b.conv(y, 32, {.kernel = 1}));
  Value right = b.relu(b.conv(y, 48, {.kernel = 3, .pad = 1}));
  y = b.concat({left, right}, 1);
  // A dense block: concatenations of concatenations, read in between.
  y = b.concat({y, b.relu(b.conv(y, 16, {.kernel = 3, .pad = 1}))}, 1);
  y = b.globalAverage(b.conv(y, 16, {.kernel = 1}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
  for (const v1::Workload& workload : planned.plan.workloads()) {
    EXPECT_EQ(workload.ir().find("insert_slice"), std::string::npos) << workload.ir();
  }
}

/// A decoder's upsampling turns channels into space: copies of whole vectors, with blocks on both sides.
TEST_F(LayoutTest, PixelShufflesStayBlocked) {
  for (const int64_t factor : {2, 3}) {
    ModelBuilder b(context_);
    Value y = b.relu(b.conv(b.input({1, 3, 9, 7}), factor * factor * 32, {.kernel = 3, .pad = 1}));
    y = b.transposed(b.reshape(y, {1, factor, factor, 32, 9, 7}), {0, 3, 4, 1, 5, 2});
    y = b.relu(b.reshape(y, {1, 32, 9 * factor, 7 * factor}));
    PlannedGraph planned = check(b.finish({b.globalAverage(b.conv(y, 16, {.kernel = 3, .pad = 1}))}));
    EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
  }
}

/// Operations after a pixel shuffle are computed with the convolution before it: factors are in the weights, and the
/// last step only moves.
TEST_F(LayoutTest, WhatFollowsAPixelShuffleJoinsTheConvolution) {
  ModelBuilder b(context_);
  Value y = b.conv(b.input({1, 3, 9, 7}), 64, {.kernel = 3, .pad = 1});
  y = b.transposed(b.reshape(y, {1, 2, 2, 16, 9, 7}), {0, 3, 4, 1, 5, 2});
  PlannedGraph planned = check(b.finish({b.sigmoid(b.batchNorm(b.reshape(y, {1, 16, 18, 14})))}));
  const v1::Step& last = planned.plan.steps(planned.plan.steps_size() - 1);
  EXPECT_EQ(planned.plan.workloads(last.workload()).flops(), 0) << planned.plan.workloads(last.workload()).summary();
  for (const v1::Workload& workload : planned.plan.workloads()) {
    EXPECT_EQ(workload.summary().find("mul +"), std::string::npos) << workload.summary();
  }
}

/// The reverse: space becomes channels.
TEST_F(LayoutTest, SpaceBecomesChannelsInBlocks) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 3, 8, 12}), 16, {.kernel = 3, .pad = 1}));
  y = b.transposed(b.reshape(y, {1, 16, 4, 2, 6, 2}), {0, 3, 5, 1, 2, 4});
  y = b.conv(b.reshape(y, {1, 64, 4, 6}), 32, {.kernel = 1});
  PlannedGraph planned = check(b.finish({b.globalAverage(y)}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
}

/// Channels without a dividing block, groups, several images: correct in any layout.
TEST_F(LayoutTest, PixelShufflesOfAnyChannels) {
  for (const int64_t channels : {1, 3, 8, 12, 20, 24}) {
    ModelBuilder b(context_);
    Value y = b.relu(b.conv(b.input({2, 16, 5, 6}), 4 * channels, {.kernel = 3, .pad = 1}));
    Value last = b.transposed(b.reshape(y, {2, 2, 2, channels, 5, 6}), {0, 3, 4, 1, 5, 2});
    Value first = b.transposed(b.reshape(y, {2, channels, 2, 2, 5, 6}), {0, 1, 4, 2, 5, 3});
    Value sum = b.add(b.reshape(last, {2, channels, 10, 12}), b.reshape(first, {2, channels, 10, 12}));
    check(b.finish({b.conv(b.relu(sum), 16, {.kernel = 3}), b.conv(b.reshape(last, {2, channels, 10, 12}), 8, {})}));
  }
}

TEST_F(LayoutTest, PartsOfUnequalBlocksAgreeOnACommonOne) {
  ModelBuilder b(context_);
  Value x = b.input({1, 3, 9, 9});
  Value y = b.relu(b.conv(x, 16, {.kernel = 3}));
  Value left = b.relu(b.conv(y, 24, {.kernel = 1}));
  Value right = b.relu(b.conv(y, 16, {.kernel = 3, .pad = 1}));
  y = b.globalAverage(b.conv(b.concat({left, right}, 1), 16, {.kernel = 1}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_LE(planned.plan.report().layout_transforms(), 1);
}

TEST_F(LayoutTest, PartsWithoutACommonBlockAreConcatenatedAllTheSame) {
  ModelBuilder b(context_);
  Value x = b.input({2, 16, 9, 9});
  Value left = b.relu(b.conv(x, 17, {.kernel = 1}));
  Value right = b.relu(b.conv(x, 31, {.kernel = 3, .pad = 1}));
  check(b.finish({b.conv(b.concat({left, right}, 1), 16, {.kernel = 1})}));
}

TEST_F(LayoutTest, AModelOutputIsPlain) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 3, 19, 19}), 32, {.kernel = 3}));
  y = b.relu(b.conv(y, 32, {.kernel = 3}));
  PlannedGraph planned = check(b.finish({y, b.sigmoid(y)}));
  // A value with two outside readers is transformed once.
  EXPECT_EQ(planned.plan.report().layout_transforms(), 1);
  EXPECT_EQ(planned.plan.report().layout_transforms_before(), 3);
  ASSERT_GE(planned.plan.report().decisions_size(), 1);
  const v1::Decision& decision = planned.plan.report().decisions(0);
  EXPECT_EQ(decision.kind(), "layout");
  EXPECT_TRUE(decision.taken());
  EXPECT_GT(decision.cost(), 0);
  EXPECT_GE(decision.alternative_cost(), decision.cost());
}

/// As converters from channels-last frameworks write it: a transpose before and after every convolution.
Value channelsLastConv(ModelBuilder& b, Value x, int64_t outputs, ModelBuilder::Window window) {
  Value y = b.conv(b.transposed(x, {0, 3, 1, 2}), outputs, window);
  return b.relu(b.addChannel(b.transposed(y, {0, 2, 3, 1}), b.weight({outputs}), 3));
}

TEST_F(LayoutTest, AChannelsLastModelIsTransformedAtItsBordersOnly) {
  ModelBuilder b(context_);
  Value y = channelsLastConv(b, b.input({1, 20, 20, 3}), 32, {.kernel = 3, .stride = 2, .pad = 1});
  Value shortcut = y;
  y = channelsLastConv(b, y, 32, {.kernel = 3, .pad = 1});
  y = channelsLastConv(b, y, 32, {.kernel = 3, .pad = 1});
  y = b.add(y, shortcut);
  y = b.transposed(b.maxPool(b.transposed(y, {0, 3, 1, 2}), {.kernel = 2, .stride = 2}), {0, 2, 3, 1});
  y = b.concat({channelsLastConv(b, y, 32, {.kernel = 1}), channelsLastConv(b, y, 16, {.kernel = 3, .pad = 1})}, 3);
  y = channelsLastConv(b, y, 48, {.kernel = 1});
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_LE(planned.plan.report().layout_transforms(), 1);
  EXPECT_GE(planned.plan.report().layout_transforms_before(), 14);
  int transposes = 0;
  for (const v1::Step& step : planned.plan.steps()) {
    transposes += planned.plan.workloads(step.workload()).summary().starts_with("transpose");
  }
  EXPECT_LE(transposes, 1);
}

TEST_F(LayoutTest, FlattenedActivationsKeepTheirOrder) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({2, 3, 9, 9}), 32, {.kernel = 3, .stride = 2}));
  y = b.maxPool(b.relu(b.conv(y, 32, {.kernel = 3, .pad = 1})), {.kernel = 2, .stride = 2});
  y = b.addChannel(b.matmul(b.reshape(y, {2, 32 * 2 * 2}), b.weight({40, 128}), true), b.weight({40}));
  y = b.matmul(b.relu(y), b.weight({40, 17}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
}

TEST_F(LayoutTest, GroupsKeepTheirBlocks) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 3, 12, 12}), 48, {.kernel = 3, .pad = 1}));
  y = b.relu(b.batchNorm(b.conv(y, 96, {.kernel = 3, .pad = 1, .groups = 3})));
  y = b.globalAverage(b.conv(y, 32, {.kernel = 1}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
}

/// Groups of 20 channels, which no vector divides, shuffled between two grouped convolutions.
Value shuffled(ModelBuilder& b, Value x, int64_t groups) {
  auto shape = mlir::cast<mlir::RankedTensorType>(x.getType()).getShape();
  Value split = b.reshape(x, {shape[0], groups, shape[1] / groups, shape[2], shape[3]});
  return b.reshape(b.transposed(split, {0, 2, 1, 3, 4}), shape);
}

TEST_F(LayoutTest, ChannelShufflesAreAccessFunctions) {
  for (int64_t channels : {48, 60, 240}) {
    ModelBuilder b(context_);
    Value x = b.relu(b.conv(b.input({1, 3, 10, 10}), channels, {.kernel = 3}));
    Value y = b.relu(b.batchNorm(b.conv(x, channels, {.kernel = 1, .groups = 3})));
    y = b.batchNorm(b.depthwise(shuffled(b, y, 3), {.kernel = 3, .pad = 1}));
    y = b.relu(b.add(b.batchNorm(b.conv(y, channels, {.kernel = 1, .groups = 3})), x));
    y = b.globalAverage(b.conv(y, 32, {.kernel = 1}));
    PlannedGraph planned = check(b.finish({y}));
    EXPECT_LE(planned.plan.report().layout_transforms(), 1) << channels;
  }
}

TEST_F(LayoutTest, SlicesOfChannelsKeepBlocksThatTheyRespect) {
  ModelBuilder b(context_);
  Value x = b.relu(b.conv(b.input({1, 3, 10, 10}), 64, {.kernel = 3}));
  Value left = b.relu(b.conv(b.slice(x, 1, 0, 32), 32, {.kernel = 3, .pad = 1}));
  Value y = shuffled(b, b.concat({left, b.slice(x, 1, 32, 32)}, 1), 2);
  check(b.finish({b.globalAverage(b.conv(y, 32, {.kernel = 1}))}));
}

TEST_F(LayoutTest, SoftmaxOverChannelsAndOddReadersStayRight) {
  ModelBuilder b(context_);
  Value x = b.relu(b.conv(b.input({2, 3, 9, 9}), 32, {.kernel = 3}));
  Value y = b.transposed(b.softmax(b.transposed(x, {0, 2, 3, 1})), {0, 3, 1, 2});
  y = b.add(b.conv(y, 32, {.kernel = 3, .pad = 1}), b.transposed(x, {0, 1, 3, 2}));
  check(b.finish({y, b.reshape(x, {2, 32, 49}), b.concat({x, y}, 2), b.layerNorm(b.reshape(x, {2, 32 * 49}))}));
}

/// A transpose makes a convolution's spatial dimension the next one's channels: the view between them has channels on
/// both sides, but different ones.
TEST_F(LayoutTest, SpaceThatBecomesChannels) {
  const std::vector<std::vector<int64_t>> orders = {{0, 3, 2, 1}, {0, 2, 3, 1}};
  for (int64_t groups : {2, 4}) {
    for (const std::vector<int64_t>& order : orders) {
      ModelBuilder b(context_);
      Value x = b.conv(b.input({3, 16, 8, 8}), 4, {.kernel = 3, .pad = 1, .groups = groups});
      Value y = b.relu(b.transposed(x, order));
      check(b.finish({b.conv(y, 2, {.kernel = 3, .pad = 1}), y}));
    }
  }
}

TEST_F(LayoutTest, APadWithSeveralReadersIsMadeOnce) {
  ModelBuilder b(context_);
  Value x = b.pad(b.relu(b.conv(b.input({1, 3, 12, 12}), 32, {.kernel = 3})), 1);
  Value y = b.add(b.conv(x, 32, {.kernel = 3}), b.depthwise(x, {.kernel = 3}));
  y = b.globalAverage(b.concat({y, b.maxPool(x, {.kernel = 3})}, 1));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
  int pads = 0;
  for (const v1::Step& step : planned.plan.steps()) {
    pads += planned.plan.workloads(step.workload()).summary().find("pad to") != std::string::npos;
  }
  EXPECT_EQ(pads, 1);
}

/// An accelerator whose matrix unit takes 16 channels: activations are NC1HWC0, with three channels filled up to 16.
TEST_F(LayoutTest, AMatrixUnitGetsBlocksOfItsChannels) {
  target_.set_family(v1::Target::SPATIAL);
  v1::Intrinsic* cube = target_.add_intrinsics();
  for (const char* name : {"m", "n", "k"}) {
    v1::Intrinsic::IterDim* loop = cube->add_iterations();
    loop->set_name(name);
    loop->set_extent(16);
    loop->set_reduction(name[0] == 'k');
  }
  ModelBuilder b(context_);
  Value y = b.relu(b.batchNorm(b.conv(b.input({1, 3, 20, 20}), 20, {.kernel = 3, .stride = 2, .pad = 1})));
  y = b.maxPool(y, {.kernel = 3, .stride = 2, .pad = 1});
  y = b.add(b.sigmoid(b.conv(y, 20, {.kernel = 3, .pad = 1})), y);
  y = b.relu(b.conv(y, 40, {.kernel = 3, .pad = 1}));
  PlannedGraph planned = check(b.finish({y}));
  bool filled_input = false;
  bool filled_between = false;
  for (const v1::Buffer& buffer : planned.plan.buffers()) {
    const auto& shape = buffer.spec().shape();
    filled_input |= shape.size() == 4 && shape[3] == 16 && shape[1] >= 20;  // one block has no dimension
    filled_between |= shape.size() == 5 && shape[1] == 2 && shape[4] == 16;
  }
  EXPECT_TRUE(filled_input);
  EXPECT_TRUE(filled_between);
  EXPECT_LE(planned.plan.report().layout_transforms(), 2);
}

/// The same network for a chip whose matrix unit prefers channels last.
TEST_F(LayoutTest, AChannelsLastMatrixUnitGetsChannelsLast) {
  target_.set_family(v1::Target::NVPTX);
  v1::Intrinsic* unit = target_.add_intrinsics();
  for (const char* name : {"m", "n", "k"}) {
    v1::Intrinsic::IterDim* loop = unit->add_iterations();
    loop->set_name(name);
    loop->set_extent(16);
    loop->set_reduction(name[0] == 'k');
  }
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 32, 20, 20}), 64, {.kernel = 3, .pad = 1}));
  y = b.globalAverage(b.relu(b.conv(y, 64, {.kernel = 3, .pad = 1})));
  PlannedGraph planned = check(b.finish({y}));
  bool channels_last = false;
  for (const v1::Buffer& buffer : planned.plan.buffers()) {
    const auto& shape = buffer.spec().shape();
    channels_last |= shape.size() == 4 && shape[1] == 22 && shape[3] == 64;
  }
  EXPECT_TRUE(channels_last);
}

TEST_F(LayoutTest, SqueezeAndExciteBroadcastsBlocks) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({2, 16, 9, 9}), 32, {.kernel = 3}));
  Value gate = b.relu(b.conv(b.globalAverage(y), 8, {.kernel = 1}));
  gate = b.sigmoid(b.conv(gate, 32, {.kernel = 1}));
  y = b.globalAverage(b.conv(y, 16, {.kernel = 1}));
  check(b.finish({y, gate}));
}

}  // namespace
}  // namespace tessera::compiler
