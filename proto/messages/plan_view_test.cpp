#include "proto/messages/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

using testing::UnorderedElementsAre;

v1::TensorSpec specOf(const std::vector<int64_t>& shape) {
  v1::TensorSpec spec;
  for (int64_t extent : shape) spec.add_shape(extent);
  return spec;
}

class PlanBuilder {
 public:
  int buffer(v1::Buffer::Kind kind, int64_t place, int64_t bytes, const std::vector<int64_t>& shape) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(kind);
    if (kind == v1::Buffer::ARENA || kind == v1::Buffer::WEIGHT) {
      buffer->set_offset(place);
    } else {
      buffer->set_index(static_cast<int32_t>(place));
    }
    buffer->set_size_bytes(bytes);
    *buffer->mutable_spec() = specOf(shape);
    return plan.buffers_size() - 1;
  }

  void step(const std::string& summary, const std::vector<int>& arguments, const std::vector<int>& results) {
    v1::Workload* workload = plan.add_workloads();
    workload->set_summary(summary);
    std::string ir = "module {\n  func.func @main(";
    for (size_t i = 0; i < arguments.size(); ++i) {
      absl::StrAppend(&ir, i ? ", " : "", "%arg", i, ": tensor<4xf32, affine_map<(d0) -> (d0)>>");
    }
    workload->set_ir(ir + ") -> tensor<4xf32> {\n    %0 = arith.addf %arg0, %arg0\n  }\n}");
    v1::Step* step = plan.add_steps();
    step->set_workload(plan.workloads_size() - 1);
    for (int buffer : arguments) step->add_operands(buffer);
    for (int buffer : results) step->add_operands(buffer);
  }

  v1::Plan plan;
};

std::vector<std::pair<int, int>> edgesOf(const v1::GraphView& view) {
  std::vector<std::pair<int, int>> edges;
  for (const auto& edge : view.edges()) edges.emplace_back(edge.from(), edge.to());
  return edges;
}

TEST(PlanView, FollowsBytesNotNames) {
  PlanBuilder b;
  b.plan.add_outputs();
  const int input = b.buffer(v1::Buffer::INPUT, 0, 256, {8, 8});
  const int weight = b.buffer(v1::Buffer::WEIGHT, 0, 256, {8, 8});
  const int first = b.buffer(v1::Buffer::ARENA, 0, 256, {8, 8});
  const int as_vector = b.buffer(v1::Buffer::ARENA, 0, 256, {64});
  const int second = b.buffer(v1::Buffer::ARENA, 256, 256, {64});
  const int both = b.buffer(v1::Buffer::ARENA, 0, 512, {128});
  const int output = b.buffer(v1::Buffer::OUTPUT, 0, 512, {128});
  b.step("matmul", {input, weight}, {first});
  b.step("relu", {as_vector}, {second});  // reads step 0's bytes with another shape
  b.step("add", {both}, {output});        // reads adjacent results of two steps
  const v1::GraphView view = viewPlan(b.plan);
  EXPECT_THAT(edgesOf(view), UnorderedElementsAre(std::pair(-1, 0), std::pair(0, 1), std::pair(0, 2), std::pair(1, 2),
                                                  std::pair(2, -1)));
}

TEST(PlanView, TheLastWriterCounts) {
  PlanBuilder b;
  const int input = b.buffer(v1::Buffer::INPUT, 0, 64, {16});
  const int place = b.buffer(v1::Buffer::ARENA, 0, 64, {16});
  const int wide = b.buffer(v1::Buffer::ARENA, 0, 128, {32});
  const int rest = b.buffer(v1::Buffer::ARENA, 64, 64, {16});
  const int last = b.buffer(v1::Buffer::ARENA, 128, 64, {16});
  b.step("a", {input}, {wide});
  b.step("b", {place}, {place});  // in place over the first half
  b.step("c", {rest}, {last});    // the second half was written by a
  b.step("d", {place}, {last});
  EXPECT_THAT(edgesOf(viewPlan(b.plan)),
              UnorderedElementsAre(std::pair(-1, 0), std::pair(0, 1), std::pair(0, 2), std::pair(1, 3)));
}

TEST(PlanView, LayoutsAreReadOffShapes) {
  EXPECT_EQ(layoutOf("conv2d 3x3 s1 64->128 56x56 + add + relu", specOf({1, 8, 56, 56, 16})), "NCHW16c");
  EXPECT_EQ(layoutOf("conv2d 3x3 s1 64->128 56x56", specOf({1, 128, 56, 56})), "NCHW");
  EXPECT_EQ(layoutOf("conv2d 3x3 s1 64->128 56x56", specOf({1, 56, 56, 128})), "NHWC");
  EXPECT_EQ(layoutOf("conv2d 3x3 s2 d2x2 g4 16->32 9x9", specOf({1, 128, 9, 9})), "NCHW");
  EXPECT_EQ(layoutOf("pool2d 3x3 s2 64 56x56", specOf({2, 4, 56, 56, 16})), "NCHW16c");
  EXPECT_EQ(layoutOf("pool2d 3x3 s2 1 56x56 + pad to 1x4x58x58x16", specOf({1, 4, 58, 58, 16})), "NCHW16c");
  EXPECT_EQ(layoutOf("depthwise-conv1d 3 s1 64 56", specOf({2, 64, 56})), "NCW");
  EXPECT_EQ(layoutOf("matmul 64x64x64", specOf({64, 64})), "");
  EXPECT_EQ(layoutOf("conv2d 3x3 s1 64->128 56x56", specOf({7})), "");
}

TEST(PlanView, ElementwiseStepsKeepTheLayout) {
  PlanBuilder b;
  b.plan.add_outputs();
  const int input = b.buffer(v1::Buffer::INPUT, 0, 1024, {1, 16, 4, 4});
  const int blocked = b.buffer(v1::Buffer::ARENA, 0, 2048, {1, 2, 4, 4, 16});
  const int output = b.buffer(v1::Buffer::OUTPUT, 0, 2048, {1, 2, 4, 4, 16});
  b.step("conv2d 3x3 s1 16->32 4x4", {input}, {blocked});
  b.step("tanh", {blocked}, {output});
  const v1::GraphView view = viewPlan(b.plan);
  ASSERT_EQ(view.nodes_size(), 2);
  EXPECT_EQ(view.nodes(1).layout(), "NCHW16c");
  EXPECT_EQ(view.edges(1).layout(), "NCHW16c");
}

TEST(PlanView, DamagedPlansDoNoHarm) {
  v1::Plan plan;
  plan.add_steps()->set_workload(7);
  plan.add_steps()->add_operands(-3);
  plan.mutable_steps(1)->add_operands(99);
  plan.add_workloads();
  plan.mutable_steps(1)->set_workload(0);
  EXPECT_EQ(viewPlan(plan).nodes_size(), 1);
}

TEST(PlanView, EdgesOfAPlanMadeToHaveThemWithoutEndAreBounded) {
  PlanBuilder builder;
  const int all = builder.buffer(v1::Buffer::ARENA, 0, 64 * 600, {4});
  for (int i = 0; i < 600; ++i) builder.step("relu", {}, {builder.buffer(v1::Buffer::ARENA, 64 * i, 64, {4})});
  const int end = builder.buffer(v1::Buffer::OUTPUT, 0, 64, {4});
  for (int i = 0; i < 600; ++i) builder.step("add", {all}, {end});
  builder.buffer(v1::Buffer::ARENA, INT64_MAX, INT64_MAX, {4});
  builder.step("far", {}, {end + 1});
  const v1::GraphView view = viewPlan(builder.plan);
  EXPECT_EQ(view.edges_size(), kMaxEdges);
  EXPECT_EQ(view.nodes_size(), 1201);
}

TEST(PlanView, ALongTextThatManyStepsShareIsNotCopiedWithoutEnd) {
  v1::Plan plan;
  plan.add_workloads()->set_summary(std::string(1 << 20, 's'));
  for (int i = 0; i < 1000; ++i) plan.add_steps()->set_name("step");
  const v1::GraphView view = viewPlan(plan);
  EXPECT_EQ(view.nodes_size(), 1000);
  EXPECT_EQ(view.nodes(0).op().size(), 1 << 20);
  EXPECT_LE(view.ByteSizeLong(), kMaxCopiedBytes + 1000 * 100);
}

}  // namespace
}  // namespace tessera
