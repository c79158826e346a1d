#include "compiler/graph/layout/matmul_layout.h"

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

class MatmulTest : public PlanTest {
 protected:
  static std::string workloads(const PlannedGraph& planned) {
    std::string text;
    for (const v1::Workload& workload : planned.plan.workloads()) text += workload.ir();
    return text;
  }
};

struct Width {
  int64_t columns;
  const char* panels;  ///< type of the packed right side; null: not packed
};
class PanelTest : public MatmulTest, public ::testing::WithParamInterface<Width> {};

TEST_P(PanelTest, BiasAndReluFollowInOneStep) {
  for (bool transposed : {false, true}) {
    ModelBuilder b(context_);
    const int64_t n = GetParam().columns;
    Value w = transposed ? b.weight({n, 17}) : b.weight({17, n});
    Value y = b.relu(b.addChannel(b.matmul(b.input({5, 17}), w, transposed), b.weight({n})));
    PlannedGraph planned = check(b.finish({y}));
    EXPECT_EQ(planned.plan.steps_size(), 1);
    if (GetParam().panels) {
      EXPECT_NE(workloads(planned).find(GetParam().panels), std::string::npos) << workloads(planned);
    } else {
      EXPECT_NE(workloads(planned).find("tensor<17x" + std::to_string(n) + "xf32>"), std::string::npos);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Widths, PanelTest,
                         ::testing::Values(Width{64, "tensor<2x17x32xf32>"}, Width{48, "tensor<3x17x16xf32>"},
                                           Width{1000, "tensor<125x17x8xf32>"}, Width{10, nullptr}));

TEST_F(MatmulTest, ViewsBetweenProductAndFollowersCostNothing) {
  ModelBuilder b(context_);
  Value x = b.input({2, 7, 24});
  Value y = b.reshape(b.matmul(b.reshape(x, {14, 24}), b.weight({24, 24})), {2, 7, 24});
  y = b.add(b.addChannel(y, b.weight({24}), 2), x);
  PlannedGraph planned = check(b.finish({y}));
  EXPECT_EQ(planned.plan.steps_size(), 1);
}

TEST_F(MatmulTest, ColumnsThatNoWidthDividesAreFilledUp) {
  for (bool transposed : {false, true}) {
    ModelBuilder b(context_);
    const int64_t n = 263;
    Value w = transposed ? b.weight({n, 5}) : b.weight({5, n});
    PlannedGraph planned = check(b.finish({b.matmul(b.input({49, 5}), w, transposed)}));
    EXPECT_NE(workloads(planned).find("tensor<17x5x16xf32>"), std::string::npos) << workloads(planned);
  }
}

// Panels of half a vector leave the other half empty. With many rows they are filled up: following operations compute
// the fill, the next product reads its part in place, and a sum with an operand without the fill is a separate step.
TEST_F(MatmulTest, HalfEmptyVectorsAreFilledUpWhereThereAreManyRows) {
  for (const bool residual : {false, true})
    for (const int64_t rows : {1, 131}) {
      ModelBuilder b(context_);
      Value x = b.input({rows, 72});
      Value y = b.relu(b.addChannel(b.matmul(x, b.weight({72, 72})), b.weight({72})));
      if (residual) y = b.add(y, x);
      PlannedGraph planned = check(b.finish({b.matmul(y, b.weight({72, 48}))}));
      const bool filled = rows > 1;
      EXPECT_NE(workloads(planned).find(filled ? "tensor<5x72x16xf32>" : "tensor<9x72x8xf32>"), std::string::npos)
          << workloads(planned);
      EXPECT_EQ(planned.plan.steps_size(), filled && residual ? 3 : 2);
    }
}

TEST_F(MatmulTest, NothingToPackIsLeftAlone) {
  for (const auto& [rows, depth, columns] : std::vector<std::array<int64_t, 3>>{{3, 2, 0}, {0, 2, 24}, {3, 0, 24}}) {
    ModelBuilder b(context_);
    check(b.finish({b.relu(b.matmul(b.input({rows, depth}), b.weight({depth, columns})))}));
  }
}

TEST_F(MatmulTest, AProductOfTwoActivationsIsNotPacked) {
  ModelBuilder b(context_);
  Value y = b.matmul(b.input({5, 32}), b.input({32, 64}));
  EXPECT_EQ(check(b.finish({y})).plan.weights_bytes(), 0);
}

/// One block of an encoder: projections, heads split and merged, softmax, residuals, normalization.
TEST_F(MatmulTest, AttentionBlock) {
  ModelBuilder b(context_);
  const int64_t s = 9, width = 32, heads = 2, head = width / heads;
  Value x = b.input({1, s, width});
  auto project = [&](Value value, int64_t in, int64_t out) {
    Value flat = b.matmul(b.reshape(value, {s, in}), b.weight({in, out}));
    return b.addChannel(b.reshape(flat, {1, s, out}), b.weight({out}), 2);
  };
  auto split = [&](Value value, llvm::ArrayRef<int64_t> permutation) {
    return b.transposed(b.reshape(value, {1, s, heads, head}), permutation);
  };
  Value q = b.reshape(split(project(x, width, width), {0, 2, 1, 3}), {heads, s, head});
  Value k = b.reshape(split(project(x, width, width), {0, 2, 3, 1}), {heads, head, s});
  Value v = b.reshape(split(project(x, width, width), {0, 2, 1, 3}), {heads, s, head});
  Value scores = b.softmax(b.reshape(b.batchMatmul(q, k), {1, heads, s, s}));
  Value mixed = b.reshape(b.batchMatmul(b.reshape(scores, {heads, s, s}), v), {1, heads, s, head});
  Value merged = b.reshape(b.transposed(mixed, {0, 2, 1, 3}), {1, s, width});
  Value y = b.layerNorm(b.add(project(merged, width, width), x));
  y = b.layerNorm(b.add(project(b.relu(project(y, width, 64)), 64, width), y));
  PlannedGraph planned = check(b.finish({y}));
  for (const v1::Step& step : planned.plan.steps()) {
    RecordProperty("step", planned.plan.workloads(step.workload()).summary());
  }
  EXPECT_LE(planned.plan.steps_size(), 16);
}

}  // namespace
}  // namespace tessera::compiler
