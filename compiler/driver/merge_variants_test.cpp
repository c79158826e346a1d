#include "compiler/driver/merge_variants.h"

#include <gtest/gtest.h>

#include "compiler/graph/testing/model_builder.h"
#include "compiler/graph/testing/plan_check.h"

namespace tessera::compiler {
namespace {

using mlir::Value;

constexpr int64_t kFilterBytes = 64 * 64 * 9 * 4;

/// Weights in Winograd's domain take four times the memory of the model's weights, and are prepared before the first
/// run.
class PreparedWeights : public PlanTest {
 protected:
  PreparedWeights() {
    target_.add_units()->set_ops_per_cycle(0.25);  // the algorithm with the fewest operations wins
    target_.mutable_memory(0)->set_bandwidth_bytes_per_cycle(1e9);
  }
  ImportedModel convolutions(int64_t size, int count) {
    ModelBuilder b(context_);
    Value x = b.input({1, 64, size, size});
    for (int i = 0; i < count; ++i) x = b.relu(b.conv(x, 64, {.kernel = 3, .pad = 1}));
    return b.finish({x});
  }
};

TEST_F(PreparedWeights, TheSourcesAreStored) {
  const PlannedGraph planned = check(convolutions(14, 2));
  ASSERT_EQ(planned.prepared.size(), 2u);
  EXPECT_EQ(planned.plan.weights_bytes(), 0);
  for (const PlannedGraph::PreparedWeight& weight : planned.prepared) {
    EXPECT_EQ(weight.plan.weights_bytes(), kFilterBytes);
    EXPECT_EQ(weight.plan.steps_size(), 1);
    EXPECT_EQ(weight.plan.inputs_size(), 0);
    ASSERT_EQ(weight.plan.outputs_size(), 1);
    EXPECT_EQ(weight.plan.outputs(0).shape(0), 6) << "positions of blocks of 4x4";
  }
  int read = 0;
  for (const v1::Buffer& buffer : planned.plan.buffers()) {
    if (buffer.kind() != v1::Buffer::PREPARED) continue;
    EXPECT_EQ(buffer.index(), read++);
    EXPECT_EQ(buffer.size_bytes(), kFilterBytes * 4);
  }
  EXPECT_EQ(read, 2);
}

TEST_F(PreparedWeights, WithoutPreparationAllIsStored) {
  options_.code.prepares_weights = false;
  const PlannedGraph planned = check(convolutions(14, 1));
  EXPECT_TRUE(planned.prepared.empty());
  EXPECT_EQ(planned.plan.weights_bytes(), kFilterBytes * 4);
}

// If all weights together grow little, all are stored, even one that would be worth a preparation step.
TEST_F(PreparedWeights, LittleGrowthIsStored) {
  ModelBuilder b(context_);
  Value x = b.input({1, 64, 14, 14});
  x = b.relu(b.conv(x, 64, {.kernel = 3, .pad = 1}));
  x = b.matmul(b.reshape(x, {1, 64 * 14 * 14}), b.weight({64 * 14 * 14, 64}));
  const PlannedGraph planned = check(b.finish({x}));
  EXPECT_TRUE(planned.prepared.empty());
  EXPECT_GE(planned.plan.weights_bytes(), kFilterBytes * 4 + 64 * 14 * 14 * 64 * 4);
  for (const PlannedGraph::PlacedWeight& placed : planned.weights)
    EXPECT_EQ(placed.weight.derivation, nullptr) << "would hold operations of a context that is gone";
}

TEST_F(PreparedWeights, VariantsShareThem) {
  VariantMerger merger;
  for (const int64_t size : {14, 28, 18}) {
    absl::StatusOr<PlannedGraph> planned = planGraph(convolutions(size, 2), target_);
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_EQ(planned->prepared.size(), 2u);
    ASSERT_EQ(merger.add(*std::move(planned), std::to_string(size)), absl::OkStatus());
  }
  const v1::Plan& plan = merger.plan();
  EXPECT_EQ(plan.weights_bytes(), 2 * kFilterBytes);
  const v1::Plan& preparation = plan.preparation();
  ASSERT_EQ(preparation.outputs_size(), 2);
  ASSERT_EQ(preparation.steps_size(), 2);
  EXPECT_EQ(preparation.workloads_size(), 0);
  EXPECT_EQ(preparation.steps(0).workload(), preparation.steps(1).workload()) << "equal ones are one workload";
  for (int step = 0; step < 2; ++step) {
    const v1::Buffer& result = preparation.buffers(preparation.steps(step).operands(1));
    EXPECT_EQ(result.kind(), v1::Buffer::OUTPUT);
    EXPECT_EQ(result.index(), step);
  }
  ASSERT_EQ(plan.variants_size(), 2);
  for (const v1::Plan* each : {&plan, &plan.variants(0), &plan.variants(1)}) {
    std::vector<int> read;
    for (const v1::Buffer& buffer : each->buffers())
      if (buffer.kind() == v1::Buffer::PREPARED) read.push_back(buffer.index());
    EXPECT_EQ(read, (std::vector<int>{0, 1}));
    EXPECT_EQ(each == &plan, each->has_preparation());
  }
}

}  // namespace
}  // namespace tessera::compiler
