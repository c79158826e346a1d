// Rewrites in the order of planGraph, on whole small models, compared with plain loops.
#include "compiler/graph/graph.h"
#include "compiler/graph/rewrites/common_values.h"
#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

class RewritesTest : public PlanTest {
 protected:
  static int countOf(const PlannedGraph& planned, const std::string& rewrite) {
    for (const v1::RewriteCount& each : planned.plan.report().rewrites()) {
      if (each.name() == rewrite) return each.count();
    }
    return 0;
  }
};

TEST_F(RewritesTest, WhatIsWrittenTwiceIsComputedOnce) {
  ModelBuilder b(context_);
  Value x = b.input({4, 32});
  Value w = b.weight({32, 32});
  Value scale = b.weight({32});
  auto branch = [&] { return b.matmul(b.mulChannel(b.relu(x), scale), w); };
  PlannedGraph planned = check(b.finish({b.add(b.sigmoid(branch()), b.relu(branch()))}));
  EXPECT_EQ(countOf(planned, "eliminate-duplicates"), 3);  // relu, scale, product
}

// Operations with equal operands and different bodies are not compared pairwise, and share one kernel.
TEST_F(RewritesTest, ManyResultsOfOneValueAreNotComparedPairwise) {
  constexpr int kResults = 80;
  std::string types, names, body;
  for (int i = 0; i < kResults; ++i) {
    const std::string n = std::to_string(i), comma = i == 0 ? "" : ", ";
    types += comma + "tensor<4x8xf32>";
    names += comma + "%r" + n;
    body += "%r" + n +
            " = linalg.generic {indexing_maps = [#id, #id], iterator_types = [\"parallel\", \"parallel\"]} "
            "ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {\n^bb0(%p: f32, %o: f32):\n%c = arith.constant " +
            n + ".5 : f32\n%s = arith.addf %p, %c : f32\nlinalg.yield %s : f32\n} -> tensor<4x8xf32>\n";
  }
  ImportedModel model =
      parse("#id = affine_map<(i, j) -> (i, j)>\nfunc.func @main(%x: tensor<4x8xf32>) -> (" + types +
            ") {\n%e = tensor.empty() : tensor<4x8xf32>\n" + body + "return " + names + " : " + types + "\n}");
  const int64_t before = comparedOperations();
  PlannedGraph planned = check(std::move(model));
  EXPECT_EQ(planned.plan.steps_size(), kResults);
  EXPECT_EQ(planned.plan.workloads_size(), 1);
  EXPECT_LE(comparedOperations() - before, 8 * kResults) << "all pairs: " << kResults * kResults / 2;
}

TEST_F(RewritesTest, ProductsOfDifferentWidthsShareOneStep) {
  ModelBuilder b(context_);
  Value x = b.relu(b.input({5, 24}));
  Value p = b.addChannel(b.matmul(x, b.weight({24, 32})), b.weight({32}));
  Value q = b.addChannel(b.matmul(x, b.weight({24, 64})), b.weight({64}));
  PlannedGraph planned = check(b.finish({b.softmax(p), b.softmax(q)}));
  EXPECT_EQ(countOf(planned, "merge-products"), 1);
}

TEST_F(RewritesTest, ProductsThatWouldLoseTheirPanelsStayApart) {
  ModelBuilder b(context_);
  Value x = b.relu(b.input({5, 24}));
  Value p = b.matmul(x, b.weight({24, 32}));
  Value q = b.matmul(x, b.weight({24, 7}));
  PlannedGraph planned = check(b.finish({b.softmax(p), b.softmax(q)}));
  EXPECT_EQ(countOf(planned, "merge-products"), 0);
}

TEST_F(RewritesTest, ResultsOfTheModelAreNotSlices) {
  ModelBuilder b(context_);
  Value x = b.input({5, 24});
  Value p = b.matmul(x, b.weight({24, 32}));
  Value q = b.matmul(x, b.weight({24, 32}));
  PlannedGraph planned = check(b.finish({p, q}));
  EXPECT_EQ(countOf(planned, "merge-products"), 0);
  EXPECT_EQ(planned.plan.steps_size(), 2);
}

TEST_F(RewritesTest, ASliceOfAnInputIsReadInPlace) {
  ModelBuilder b(context_);
  Value x = b.input({6, 20});
  Value y = b.add(b.relu(b.slice(x, 1, 3, 10)), b.sigmoid(b.slice(x, 1, 10, 10)));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.steps_size(), 1);
  EXPECT_EQ(planned.plan.arena_bytes(), 0);
}

TEST_F(RewritesTest, ASliceKeepsItsSourceFromBeingOverwritten) {
  ModelBuilder b(context_);
  Value x = b.input({4, 16});
  // The same operation reads s whole and in part, so the sum must not overwrite it.
  Value s = b.matmul(x, b.weight({16, 16}));
  Value first = b.slice(s, 0, 0, 2);
  Value both = b.concat({first, first}, 0);
  PlannedGraph planned = check(b.finish({b.softmax(b.add(s, both)), b.softmax(b.add(first, b.slice(s, 0, 1, 2)))}));
}

TEST_F(RewritesTest, AResultMayBeASlice) {
  ModelBuilder b(context_);
  Value y = b.relu(b.input({6, 20}));
  check(b.finish({b.slice(y, 1, 3, 10), b.slice(y, 0, 2, 2), b.softmax(y)}));
}

TEST_F(RewritesTest, ElementwiseBehindConcatenationJoinsTheParts) {
  for (int64_t dim : {0, 1}) {
    ModelBuilder b(context_);
    Value x = b.input({6, 16});
    Value p = b.matmul(x, b.weight({16, 32}));
    Value q = dim == 0 ? b.matmul(b.relu(x), b.weight({16, 32})) : b.matmul(b.sigmoid(x), b.weight({16, 48}));
    Value joined = b.concat({p, q}, dim);
    PlannedGraph planned = check(b.finish({b.softmax(b.relu(b.addChannel(joined, b.weight({dim == 0 ? 32 : 80}))))}));
    EXPECT_EQ(countOf(planned, "split-elementwise-of-concat"), 1);
  }
}

// 70 parts become three concatenations, two of them equal, and one of their results.
TEST_F(RewritesTest, AWideConcatenationIsATreeOfEqualKernels) {
  for (int64_t dim : {0, 1}) {
    ModelBuilder b(context_);
    llvm::SmallVector<Value> parts;
    for (int i = 0; i < 70; ++i) parts.push_back(b.input({3, 5}));
    PlannedGraph planned = check(b.finish({b.concat(parts, dim)}));
    EXPECT_EQ(countOf(planned, "cut-wide-concats"), 1);
    EXPECT_EQ(planned.plan.workloads_size(), 3);
    for (const v1::Step& step : planned.plan.steps()) EXPECT_LE(step.operands_size(), 33);
  }
}

// Three copies; one kernel reads the same part of each copy.
TEST_F(RewritesTest, PartsOfAWideSplitShareKernels) {
  for (int64_t dim : {0, 1}) {
    ModelBuilder b(context_);
    llvm::SmallVector<int64_t> shape = {5, 5};
    shape[dim] = 210;
    Value x = b.input(shape);
    llvm::SmallVector<Value> results;
    for (int i = 0; i < 70; ++i) results.push_back(b.relu(b.slice(x, dim, 3 * i, 3)));
    PlannedGraph planned = check(b.finish(results));
    EXPECT_EQ(countOf(planned, "cut-wide-splits"), 1);
    EXPECT_LE(planned.plan.workloads_size(), 32 + 6 + 3);
  }
}

TEST_F(RewritesTest, ConstantsAreMadeAsFarAsTheyAreRead) {
  ModelBuilder b(context_);
  Value product = b.matmul(b.weight({70, 33}), b.weight({33, 270}));
  Value some = b.add(b.slice(product, 1, 7, 40), b.slice(product, 1, 201, 40));
  PlannedGraph planned = check(b.finish({b.add(b.input({70, 40}), some)}));
  EXPECT_EQ(planned.plan.steps_size(), 1);
}

TEST_F(RewritesTest, ProductsOfConstantsAreExactWhateverTheirSize) {
  for (const auto& [rows, depth, columns] : {std::tuple(1, 300, 259), {7, 131, 1}, {9, 257, 515}, {130, 5, 64}}) {
    ModelBuilder b(context_);
    Value product = b.matmul(b.weight({rows, depth}), b.weight({depth, columns}));
    Value turned = b.matmul(b.weight({rows, depth}), b.weight({columns, depth}), /*transpose_y=*/true);
    PlannedGraph planned = check(b.finish({b.add(b.input({rows, columns}), b.add(product, turned))}));
    EXPECT_EQ(planned.plan.steps_size(), 1);
  }
}

TEST_F(RewritesTest, WhatIsAlsoPaddedIsReadInsideThePadding) {
  ModelBuilder b(context_);
  // Three channels are read without packing: no step packs the input.
  Value x = b.relu(b.conv(b.input({1, 3, 9, 9}), 32, {.kernel = 3}));
  Value y = b.relu(b.add(b.conv(b.pad(x, 1), 32, {.kernel = 3}), x));
  PlannedGraph planned = check(b.finish({b.globalAverage(y)}));
  EXPECT_EQ(countOf(planned, "share-pads"), 1);
  for (const v1::Step& step : planned.plan.steps()) {
    EXPECT_GT(planned.plan.workloads(step.workload()).flops(), 0) << planned.plan.workloads(step.workload()).summary();
  }
}

// The branches of a pyramid whose taps are farther apart than the image: 3x3 becomes 1x1 or 1x3.
TEST_F(RewritesTest, TapsThatMeetOnlyPaddingAreCutOff) {
  struct Case {
    int64_t height, width, dilation, pad, stride;
    int dropped;
    const char* left;
  };
  const Case cases[] = {{6, 7, 8, 8, 1, 2, "1x1"}, {3, 9, 5, 5, 1, 1, "1x3"},  {6, 6, 6, 6, 1, 2, "1x1"},
                        {6, 6, 5, 5, 1, 0, "3x3"}, {5, 13, 7, 7, 1, 1, "1x3"}, {9, 9, 6, 3, 3, 2, "1x1"}};
  for (const Case& c : cases) {
    ModelBuilder b(context_);
    const ModelBuilder::Window window{.kernel = 3, .stride = c.stride, .pad = c.pad, .dilation = c.dilation};
    Value x = b.input({2, 16, c.height, c.width});
    PlannedGraph planned = check(b.finish({b.relu(b.batchNorm(b.conv(x, 32, window)))}));
    EXPECT_EQ(countOf(planned, "drop-idle-taps"), c.dropped) << c.left;
  }
}

// Phases of a transposed convolution: each block of output channels has zeros at different taps.
TEST_F(RewritesTest, BlocksOfOutputsKeepTheTapsTheyHave) {
  struct Case {
    int64_t outputs, inputs;  // outputs of one block
    int divided;
  };
  // In vectors of 16, blocks of 8 outputs share a vector with neighbours that use other taps: too little could be
  // removed.
  for (const Case& c : {Case{16, 32, 1}, Case{8, 32, 0}, Case{3, 32, 0}, Case{17, 16, 0}}) {
    ModelBuilder b(context_);
    Value middle = b.pad(b.weight({c.outputs, c.inputs, 1, 1}), 1);
    Value whole = b.weight({c.outputs, c.inputs, 3, 3});
    Value corner = b.slice(b.slice(b.pad(b.weight({c.outputs, c.inputs, 2, 2}), 1), 2, 0, 3), 3, 1, 3);
    Value filter = b.concat({middle, whole, corner, middle}, 0);
    Value y = b.relu(b.batchNorm(b.convWith(b.input({1, c.inputs, 12, 13}), filter, {.kernel = 3, .pad = 1})));
    PlannedGraph planned = check(b.finish({y}));
    EXPECT_EQ(countOf(planned, "keep-busy-taps"), c.divided) << c.outputs;
  }
}

}  // namespace
}  // namespace tessera::compiler
