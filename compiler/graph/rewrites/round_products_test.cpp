// Networks of f32 whose products read bf16: every step after the rounding is compared with the rounded model, and the
// error of the rounding is measured.

#include "compiler/graph/rewrites/round_products.h"

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "compiler/target/target.h"
#include "compiler/verification/graph_check.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

class RoundProductsTest : public PlanTest {
 protected:
  RoundProductsTest() {
    target_ = *findBuiltinTarget("znver4");
    options_.round_products = true;
  }

  static int count(const PlannedGraph& planned, const std::string& rewrite) {
    int all = 0;
    for (const v1::RewriteCount& each : planned.plan.report().rewrites())
      if (each.name() == rewrite) all += each.count();
    return all;
  }
  static bool holds(const PlannedGraph& planned, const std::vector<int64_t>& shape, v1::DataType type) {
    for (const v1::Buffer& buffer : planned.plan.buffers())
      if (buffer.spec().dtype() == type &&
          std::vector<int64_t>(buffer.spec().shape().begin(), buffer.spec().shape().end()) == shape)
        return true;
    return false;
  }
};

TEST_F(RoundProductsTest, ATransformerKeepsItsNormalizationsInSingle) {
  ModelBuilder b(context_);
  Value x = b.input({6, 48});
  Value y = b.matmul(x, b.weight({48, 48}));
  Value scores = b.softmax(b.matmul(y, y, true));
  y = b.layerNorm(b.add(b.matmul(scores, y), x));
  Value z = b.relu(b.matmul(y, b.weight({48, 65})));
  PlannedGraph planned = check(b.finish({b.add(b.matmul(z, b.weight({65, 48})), y)}));
  // Products of two activations are unchanged; 65 steps are filled up to 66.
  EXPECT_EQ(count(planned, "round-products"), 3);
  EXPECT_EQ(count(planned, "interleave-products"), 3);
  // Activations between the layers are stored in bf16.
  EXPECT_TRUE(holds(planned, {6, 48}, v1::DATA_TYPE_BF16));
  int halves = 0;
  for (const PlannedGraph::PlacedWeight& weight : planned.weights)
    halves += weight.weight.spec.dtype() == v1::DATA_TYPE_BF16;
  EXPECT_EQ(halves, 3);
}

TEST_F(RoundProductsTest, AnImageIsFilledUpToWholePairs) {
  for (int64_t channels : {1, 2, 3, 5, 7}) {
    ModelBuilder b(context_);
    Value y = b.relu(b.conv(b.input({1, channels, 17, 19}), 32, {.kernel = 7, .stride = 2, .pad = 3}));
    y = b.add(b.conv(y, 32, {.kernel = 1}), y);
    PlannedGraph planned = check(b.finish({b.globalAverage(b.relu(y))}));
    EXPECT_EQ(count(planned, "round-products"), 2);
    EXPECT_EQ(count(planned, "interleave-products"), channels == 1 ? 1 : 2) << channels;
  }
}

TEST_F(RoundProductsTest, ConvolutionsOfEveryKindAreRight) {
  for (const auto& [channels, window] : {std::pair<int64_t, ModelBuilder::Window>(16, {.kernel = 3, .pad = 1}),
                                         {24, {.kernel = 3, .pad = 2, .dilation = 2}},
                                         {18, {.kernel = 5, .stride = 3, .pad = 1, .groups = 3}},
                                         {13, {.kernel = 1, .stride = 2}}}) {
    ModelBuilder b(context_);
    Value y = b.conv(b.input({2, channels, 11, 13}), 24, window);
    y = b.relu(b.depthwise(b.batchNorm(y), {.kernel = 3, .pad = 1}));
    check(b.finish({b.conv(y, 17, {.kernel = 1})}));
  }
}

TEST_F(RoundProductsTest, WithoutAnInstructionTheProductsAreTheSame) {
  target_ = *findBuiltinTarget("x86-64-v3");
  ModelBuilder b(context_);
  Value y = b.relu(b.matmul(b.input({3, 40}), b.weight({40, 24})));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(count(planned, "round-products"), 1);
  EXPECT_EQ(count(planned, "interleave-products"), 0);
  bool said = false;
  for (const v1::Decision& decision : planned.plan.report().decisions())
    said |= decision.kind() == "precision" && decision.reason().find("no instruction") != std::string::npos;
  EXPECT_TRUE(said);
}

// Rounding to bf16 has an error of at most one part in 256; sums of products of two rounded operands lose less than one
// in 64.
TEST_F(RoundProductsTest, WhatIsLostIsMeasured) {
  ModelBuilder b(context_);
  ImportedModel model = b.finish({b.matmul(b.input({5, 64}), b.weight({64, 32}))});
  verification::GraphCheck measured;
  options_.observer = &measured;
  ASSERT_TRUE(planGraph(std::move(model), target_, options_).ok());
  ASSERT_TRUE(measured.lost().has_value());
  EXPECT_GT(*measured.lost(), 1e-5);
  EXPECT_LT(*measured.lost(), 1.0 / 64);
}

// Code that runs products on blocks of f16: also products of two activations are rounded, and no pass lays out operands
// for vector registers.
TEST_F(RoundProductsTest, BlocksOfF16RoundAllProducts) {
  target_ = *findBuiltinTarget("ascend-910-like");
  options_.round_products = false;
  options_.code = {.register_tiles = false, .slices = false, .prepares_weights = false, .factors = v1::DATA_TYPE_F16};
  options_.fusion_policy = fusion::FusionPolicy::kNever;
  ModelBuilder b(context_);
  Value x = b.input({1, 8, 9, 7});
  Value y = b.relu(b.depthwise(b.conv(x, 24, {.kernel = 3, .stride = 2, .pad = 1}), {.kernel = 3, .pad = 1}));
  Value rows = b.matmul(b.input({6, 24}), b.weight({24, 16}));
  PlannedGraph planned = check(b.finish({y, b.matmul(b.softmax(b.matmul(rows, rows, true)), rows)}));
  EXPECT_EQ(count(planned, "round-products"), 4);
  for (const char* pass : {"assign-layouts", "pack-matmuls", "interleave-products", "winograd", "split-sums"})
    EXPECT_EQ(count(planned, pass), 0) << pass;
  int halves = 0;
  for (const PlannedGraph::PlacedWeight& weight : planned.weights)
    halves += weight.weight.spec.dtype() == v1::DATA_TYPE_F16;
  EXPECT_EQ(halves, 2) << "the depthwise window stays in f32";
}

TEST_F(RoundProductsTest, NothingIsRoundedUnlessAskedFor) {
  options_.round_products = false;
  ModelBuilder b(context_);
  PlannedGraph planned = check(b.finish({b.matmul(b.input({5, 64}), b.weight({64, 32}))}));
  EXPECT_EQ(count(planned, "round-products"), 0);
  EXPECT_FALSE(holds(planned, {5, 64}, v1::DATA_TYPE_BF16));
}

}  // namespace
}  // namespace tessera::compiler
