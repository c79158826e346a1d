#include "compiler/graph/layout.h"

#include "compiler/graph/model_builder.h"
#include "compiler/graph/plan_check.h"

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
                                           ConvCase{48, 96, 7, {.kernel = 3, .stride = 2, .pad = 1, .groups = 3}}));

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
  // Batch normalization leaves a bias, and no multiplication outside the convolutions' own.
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
  // A dense block: what was concatenated is concatenated again, and read in between.
  y = b.concat({y, b.relu(b.conv(y, 16, {.kernel = 3, .pad = 1}))}, 1);
  y = b.globalAverage(b.conv(y, 16, {.kernel = 1}));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 0);
  for (const v1::Workload& workload : planned.plan.workloads()) {
    EXPECT_EQ(workload.ir().find("insert_slice"), std::string::npos) << workload.ir();
  }
}

TEST_F(LayoutTest, MixedBlocksAreConcatenatedPlain) {
  ModelBuilder b(context_);
  Value x = b.input({1, 16, 9, 9});
  Value left = b.relu(b.conv(x, 24, {.kernel = 1}));
  Value right = b.relu(b.conv(x, 16, {.kernel = 3, .pad = 1}));
  Value y = b.conv(b.concat({left, right}, 1), 16, {.kernel = 1});
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_GT(planned.plan.report().layout_transforms(), 0);
}

TEST_F(LayoutTest, AModelOutputIsPlain) {
  ModelBuilder b(context_);
  Value y = b.relu(b.conv(b.input({1, 16, 9, 9}), 32, {.kernel = 3}));
  PlannedGraph planned = check(b.finish({y, b.sigmoid(y)}));
  EXPECT_EQ(planned.plan.report().layout_transforms(), 3);
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
