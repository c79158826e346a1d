#include "compiler/graph/graph.h"

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"
#include "compiler/target/target.h"
#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

TEST_F(PlanTest, MatmulBiasReluIsOneStep) {
  PlannedGraph planned = checkText(R"(
    func.func @main(%x: tensor<5x17xf32>, %w: tensor<17x24xf32> {tessera.weight = 0 : i64},
                    %b: tensor<24xf32> {tessera.weight = 1 : i64}) -> tensor<5x24xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<5x24xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x24xf32>) -> tensor<5x24xf32>
      %m = linalg.matmul ins(%x, %w : tensor<5x17xf32>, tensor<17x24xf32>) outs(%f : tensor<5x24xf32>) -> tensor<5x24xf32>
      %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%m, %b : tensor<5x24xf32>, tensor<24xf32>) outs(%e : tensor<5x24xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.addf %p, %q : f32
          linalg.yield %s : f32
      } -> tensor<5x24xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%a : tensor<5x24xf32>) outs(%e : tensor<5x24xf32>) {
        ^bb0(%p: f32, %o: f32):
          %s = arith.maximumf %p, %zero : f32
          linalg.yield %s : f32
      } -> tensor<5x24xf32>
      return %r : tensor<5x24xf32>
    })");
  EXPECT_EQ(planned.plan.steps_size(), 1);
  EXPECT_EQ(planned.plan.arena_bytes(), 0);
}

TEST_F(PlanTest, OutputsThatNoStepComputesAreCopied) {
  PlannedGraph planned = checkText(R"(
    func.func @main(%x: tensor<6xf32>, %unused: tensor<3xf32>, %w: tensor<4xf32> {tessera.weight = 0 : i64})
        -> (tensor<6xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>) {
      %c = arith.constant dense<2.5> : tensor<5xf32>
      %v = tensor.expand_shape %x [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
      %e = tensor.empty() : tensor<6xf32>
      %r = linalg.exp ins(%x : tensor<6xf32>) outs(%e : tensor<6xf32>) -> tensor<6xf32>
      %rv = tensor.expand_shape %r [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
      return %x, %v, %w, %c, %r, %r, %rv : tensor<6xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>
    })");
  EXPECT_EQ(planned.plan.steps_size(), 7);
}

TEST_F(PlanTest, BooleansCrossAsBytes) {
  checkText(R"(
    func.func @main(%x: tensor<2x7xf32>, %y: tensor<2x7xf32>) -> (tensor<2x7xf32>, tensor<2x7xf32>, tensor<2x7xf32>) {
      %e1 = tensor.empty() : tensor<2x7xi1>
      %e = tensor.empty() : tensor<2x7xf32>
      %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<2x7xf32>, tensor<2x7xf32>) outs(%e1 : tensor<2x7xi1>) {
        ^bb0(%p: f32, %q: f32, %o: i1):
          %s = arith.cmpf olt, %p, %q : f32
          linalg.yield %s : i1
      } -> tensor<2x7xi1>
      %s0 = linalg.select ins(%c, %x, %y : tensor<2x7xi1>, tensor<2x7xf32>, tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
      %s1 = linalg.select ins(%c, %y, %x : tensor<2x7xi1>, tensor<2x7xf32>, tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
      %s2 = linalg.exp ins(%s0 : tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
      return %s0, %s1, %s2 : tensor<2x7xf32>, tensor<2x7xf32>, tensor<2x7xf32>
    })");
}

TEST_F(PlanTest, SoftmaxIsOneWorkload) {
  PlannedGraph planned = checkText(R"(
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    func.func @main(%x: tensor<7x13xf32>) -> tensor<7x13xf32> {
      %low = arith.constant 0xFF800000 : f32
      %zero = arith.constant 0.0 : f32
      %er = tensor.empty() : tensor<7xf32>
      %e = tensor.empty() : tensor<7x13xf32>
      %fl = linalg.fill ins(%low : f32) outs(%er : tensor<7xf32>) -> tensor<7xf32>
      %fz = linalg.fill ins(%zero : f32) outs(%er : tensor<7xf32>) -> tensor<7xf32>
      %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<7x13xf32>) outs(%fl : tensor<7xf32>) {
        ^bb0(%p: f32, %o: f32):
          %s = arith.maximumf %p, %o : f32
          linalg.yield %s : f32
      } -> tensor<7xf32>
      %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
          ins(%x, %m : tensor<7x13xf32>, tensor<7xf32>) outs(%e : tensor<7x13xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.subf %p, %q : f32
          %t = math.exp %s : f32
          linalg.yield %t : f32
      } -> tensor<7x13xf32>
      %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
          ins(%d : tensor<7x13xf32>) outs(%fz : tensor<7xf32>) {
        ^bb0(%p: f32, %o: f32):
          %s = arith.addf %p, %o : f32
          linalg.yield %s : f32
      } -> tensor<7xf32>
      %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
          ins(%d, %sum : tensor<7x13xf32>, tensor<7xf32>) outs(%e : tensor<7x13xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.divf %p, %q : f32
          linalg.yield %s : f32
      } -> tensor<7x13xf32>
      return %r : tensor<7x13xf32>
    })");
  EXPECT_EQ(planned.plan.steps_size(), 1);
}

TEST_F(PlanTest, AnElementwiseStepWritesOverItsDyingOperand) {
  ModelBuilder b(context_);
  mlir::Value x = b.input({4, 64});
  // The transpose's result dies in the sum, which is a separate step because the product has two readers.
  mlir::Value p = b.matmul(x, b.weight({64, 64}));
  mlir::Value q = b.transposed(b.reshape(p, {16, 16}), {1, 0});
  mlir::Value s = b.relu(b.add(b.reshape(q, {4, 64}), p));
  PlannedGraph planned = check(b.finish({b.softmax(b.matmul(s, b.weight({64, 64}))), b.softmax(s)}));
  bool in_place = false;
  for (const v1::Step& step : planned.plan.steps()) {
    const v1::Buffer& result = planned.plan.buffers(*step.operands().rbegin());
    for (int i = 0; i + 1 < step.operands_size(); ++i) {
      const v1::Buffer& operand = planned.plan.buffers(step.operands(i));
      in_place |= operand.kind() == v1::Buffer::ARENA && result.kind() == v1::Buffer::ARENA &&
                  operand.offset() == result.offset();
    }
  }
  EXPECT_TRUE(in_place);
}

/// Two layers after `width` columns with a residual connection, and the plan's decisions on overwriting it.
struct ResidualPlan {
  PlannedGraph planned;
  std::vector<v1::Decision> decisions;
  int over = 0;  ///< steps whose result overwrites an operand
};
template <typename Build>
ResidualPlan residualPlan(Build&& build) {
  ResidualPlan result{build(), {}};
  for (const v1::Decision& decision : result.planned.plan.report().decisions())
    if (decision.kind() == "in-place") result.decisions.push_back(decision);
  for (const v1::Step& step : result.planned.plan.steps()) {
    const int last = *step.operands().rbegin();
    result.over += static_cast<int>(std::count(step.operands().begin(), step.operands().end(), last)) - 1;
  }
  return result;
}

TEST_F(PlanTest, AProductIsWrittenOverTheResidualThatDiesInIt) {
  const auto block = [&](int64_t hidden, bool read_later) {
    return residualPlan([&] {
      ModelBuilder b(context_);
      mlir::Value x = b.relu(b.matmul(b.input({7, 33}), b.weight({33, 33})));
      mlir::Value h = b.relu(b.matmul(x, b.weight({33, hidden})));
      mlir::Value y = b.relu(b.add(b.matmul(h, b.weight({hidden, 33})), x));
      mlir::Value z = b.softmax(b.matmul(y, b.weight({33, 5})));
      std::vector<mlir::Value> results = {z};
      if (read_later) results.push_back(b.softmax(b.matmul(x, b.weight({33, 3}))));
      return check(b.finish(results));
    });
  };
  const ResidualPlan plan = block(64, false);
  ASSERT_EQ(plan.decisions.size(), 1U);
  EXPECT_TRUE(plan.decisions[0].taken());
  EXPECT_EQ(plan.decisions[0].alternative_cost(), 7 * 33 * 4);
  EXPECT_EQ(plan.over, 1);
  int marked = 0;
  for (const v1::Workload& workload : plan.planned.plan.workloads())
    marked += static_cast<int>(workload.ir().find("tessera.written_over") != std::string::npos);
  EXPECT_EQ(marked, 1);

  const ResidualPlan later = block(64, true);
  EXPECT_TRUE(later.decisions.empty()) << later.decisions[0].reason();
  EXPECT_EQ(later.over, 0);
  EXPECT_GT(later.planned.plan.report().peak_live_bytes(), plan.planned.plan.report().peak_live_bytes());

  // The sum is cut into blocks, whose partial results are stored in the result.
  const ResidualPlan cut = block(4000, false);
  ASSERT_EQ(cut.decisions.size(), 1U);
  EXPECT_FALSE(cut.decisions[0].taken());
  EXPECT_NE(cut.decisions[0].reason().find("4000 terms"), std::string::npos) << cut.decisions[0].reason();
  EXPECT_EQ(cut.over, 0);
}

TEST_F(PlanTest, AResidualThatTheProductReadsAsWellStaysWhereItIs) {
  const ResidualPlan plan = residualPlan([&] {
    ModelBuilder b(context_);
    mlir::Value x = b.relu(b.matmul(b.input({7, 33}), b.weight({33, 33})));
    mlir::Value y = b.relu(b.add(b.matmul(x, b.weight({33, 33})), x));
    return check(b.finish({b.softmax(b.matmul(y, b.weight({33, 5})))}));
  });
  EXPECT_TRUE(plan.decisions.empty());
  EXPECT_EQ(plan.over, 0);
}

TEST_F(PlanTest, EqualLayersShareOneWorkload) {
  ModelBuilder b(context_);
  mlir::Value y = b.input({3, 64});
  for (int layer = 0; layer < 5; ++layer) y = b.relu(b.addChannel(b.matmul(y, b.weight({64, 64})), b.weight({64})));
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.steps_size(), 5);
  EXPECT_EQ(planned.plan.workloads_size(), 1);
  EXPECT_EQ(planned.plan.workloads(0).flops(), 3 * 64 * 64 * 2 + 2 * 3 * 64);
}

TEST_F(PlanTest, EqualModelsGiveEqualPlans) {
  auto plan = [&] {
    ModelBuilder b(context_);
    mlir::Value y = b.relu(b.batchNorm(b.conv(b.input({1, 3, 9, 9}), 32, {.kernel = 3, .pad = 1})));
    y = b.layerNorm(b.reshape(b.globalAverage(b.conv(y, 24, {.kernel = 3})), {1, 24}));
    absl::StatusOr<PlannedGraph> planned = planGraph(b.finish({y}), target_);
    EXPECT_TRUE(planned.ok()) << planned.status();
    std::string text = planned->plan.SerializeAsString();
    for (const PlannedGraph::PlacedWeight& placed : planned->weights) text += placed.weight.bytes;
    return text;
  };
  EXPECT_EQ(plan(), plan());
}

TEST_F(PlanTest, TenThousandNodes) {
  ModelBuilder b(context_);
  mlir::Value x = b.input({4, 32});
  mlir::Value y = x;
  mlir::Value w = b.weight({32, 32});
  for (int node = 0; node < 2500; ++node) {
    y = b.relu(b.matmul(y, node % 2 == 0 ? w : b.weight({32, 32})));
    y = b.add(b.sigmoid(y), x);
  }
  absl::StatusOr<PlannedGraph> planned = planGraph(b.finish({y}), target_);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->plan.steps_size(), 2500);
  EXPECT_EQ(planned->plan.workloads_size(), 1);
  // Two buffers alternate: the arena does not grow with depth.
  EXPECT_LE(planned->plan.arena_bytes(), 2 * 4 * 32 * 4);
}

/// Code generation refuses to slice one of two attentions: it stays unfused, the other one is fused.
TEST_F(PlanTest, OnlyWhatCodeGenerationRefusesStaysApart) {
  target_ = *findBuiltinTarget("cascadelake");
  int asked = 0;
  std::string refused;
  options_.find_refused = [&](const PlannedGraph& planned) {
    ++asked;
    std::vector<GraphChoices::Refused> apart;
    for (const auto& [hash, choices] : planned.fused) {
      if (refused.empty()) refused = hash;
      if (hash == refused) apart.push_back({choices[0], "nothing cuts it"});
    }
    return apart;
  };
  ModelBuilder b(context_);
  auto attention = [&](int64_t rows) {
    mlir::Value q = b.input({4, rows, 32}), k = b.input({4, 32, 256}), v = b.input({4, 256, 32});
    return b.batchMatmul(b.softmax(b.batchMatmul(q, k)), v);
  };
  const std::vector<mlir::Value> results = {attention(384), attention(400)};
  PlannedGraph planned = check(b.finish(results));
  EXPECT_GE(asked, 2);
  EXPECT_EQ(planned.fused.count(refused), 0);
  EXPECT_FALSE(planned.fused.empty());
  int told = 0;
  for (const v1::Decision& decision : planned.plan.report().decisions())
    told += !decision.taken() && decision.reason().find("refuses it: nothing cuts it") != std::string::npos ? 1 : 0;
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace tessera::compiler
