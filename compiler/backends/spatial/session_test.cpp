#include "compiler/backends/spatial/session.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "compiler/backends/plan_session/testing/loop_plan.h"
#include "compiler/backends/plan_session/testing/stored_zip.h"
#include "compiler/target/target.h"

namespace tessera::compiler::simulator {
namespace {

constexpr int64_t kCount = kLoopPlanCount, kBytes = kLoopPlanBytes;

class SessionTest : public testing::Test {
 public:
  SessionTest() : plan(loopPlan(3)) {
    *plan.mutable_target() = *findBuiltinTarget("ascend-910-like");
    kernel = scaleAndAdd(kCount);
    const std::array<float, kCount> values = {0, 1, 2, -1, 0.5F};
    weights.assign(64, '\0');
    std::memcpy(weights.data(), values.data(), kBytes);
  }

  absl::StatusOr<std::unique_ptr<SimulatedArtifact>> open() {
    v1::SpatialKernel scheduled = kernel;
    if (absl::Status status = scheduleKernel(scheduled, plan.target()); !status.ok()) return status;
    v1::SpatialProgram program;
    *program.add_kernels() = scheduled;
    zip_ = storedZip({{"manifest.pb", v1::Manifest().SerializeAsString()},
                      {"plan.pb", plan.SerializeAsString()},
                      {"kernels.pb", program.SerializeAsString()},
                      {"weights.bin", weights}});
    ArtifactFile file;
    const RuntimeStatus status = ArtifactFile::fromMemory(zip_, &file);
    if (!status.ok()) return absl::InternalError(status.message());
    EXPECT_TRUE(SimulatedArtifact::isOne(file));
    return SimulatedArtifact::open(file, /*verify_weights=*/true);
  }

  v1::Plan plan;
  v1::SpatialKernel kernel;
  std::string weights;

 private:
  std::vector<uint8_t> zip_;
};

TEST_F(SessionTest, RunsLoopsAndCountsTheirSteps) {
  const auto artifact = open();
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  const auto session = SimulatedSession::create(**artifact, 0);
  ASSERT_TRUE(session.ok()) << session.status();
  const std::array<float, kCount> x = {1, 2, 3, 4, 5};
  const std::vector<std::string_view> inputs = {{reinterpret_cast<const char*>(x.data()), kBytes}};
  std::vector<std::string> outputs;
  ASSERT_TRUE((*session)->run(inputs, outputs).ok());
  ASSERT_EQ(outputs.size(), 1U);
  ASSERT_EQ(outputs[0].size(), static_cast<size_t>(kBytes));
  std::array<float, kCount> y = {};
  std::memcpy(y.data(), outputs[0].data(), kBytes);
  // x * (weight + 1) ^ 3
  EXPECT_EQ(y, (std::array<float, kCount>{1, 16, 81, 0, 16.875F}));
  const auto cost = (*session)->cost();
  ASSERT_TRUE(cost.ok()) << cost.status();
  ASSERT_EQ(cost->steps_size(), 1);
  EXPECT_EQ(cost->steps(0).runs(), 3);
  EXPECT_EQ(cost->steps(0).name(), "node");
  EXPECT_GT(cost->cycles(), 0);
  const auto events = (*session)->events();
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 1U);
  EXPECT_EQ(events->front().name, "mul + add x 3");
  EXPECT_NEAR(events->front().cycles, cost->cycles(), 1e-6 * cost->cycles());
}

TEST_F(SessionTest, NamesWrongInputs) {
  const auto artifact = open();
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  const auto session = SimulatedSession::create(**artifact, 0);
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<std::string> outputs;
  const std::string four(16, '\0');
  const absl::Status status = (*session)->run(std::vector<std::string_view>{four}, outputs);
  EXPECT_EQ(status.message(), "input 'x' takes 20 bytes, 16 were given");
}

TEST_F(SessionTest, TakesDefaults) {
  v1::TensorValue& value = *plan.add_default_inputs();
  setTensor(*value.mutable_spec(), "x", kCount);
  const std::array<float, kCount> x = {1, 1, 1, 1, 1};
  value.set_data(std::string(reinterpret_cast<const char*>(x.data()), kBytes));
  const auto artifact = open();
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  const auto session = SimulatedSession::create(**artifact, 0);
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<std::string> outputs;
  ASSERT_TRUE((*session)->run(std::vector<std::string_view>{{}}, outputs).ok());
  std::array<float, kCount> y = {};
  std::memcpy(y.data(), outputs[0].data(), kBytes);
  EXPECT_EQ(y, (std::array<float, kCount>{1, 8, 27, 0, 3.375F}));
}

TEST_F(SessionTest, RejectsDamagedArtifacts) {
  struct Case {
    const char* expected;
    std::function<void(SessionTest&)> damage;
  };
  const std::vector<Case> cases = {
      {"bytes of weights", [](SessionTest& test) { test.weights.resize(32); }},
      {"runs workload 7 of 1", [](SessionTest& test) { test.plan.mutable_steps(0)->set_workload(7); }},
      {"a step passes", [](SessionTest& test) { test.plan.mutable_steps(0)->mutable_operands()->RemoveLast(); }},
      {"bytes, a step passes", [](SessionTest& test) { test.plan.mutable_buffers(2)->set_size_bytes(16); }},
      {"step 0 refers to no such buffer", [](SessionTest& test) { test.plan.mutable_steps(0)->set_operands(1, 99); }},
      {"reaches beyond its section", [](SessionTest& test) { test.plan.mutable_buffers(3)->set_offset(64); }},
      {"loop 0 has no steps", [](SessionTest& test) { test.plan.mutable_loops(0)->set_last_step(0); }},
      {"carries no such buffer",
       [](SessionTest& test) { test.plan.mutable_loops(0)->mutable_carried(0)->set_result(44); }},
      {"is a range",
       [](SessionTest& test) {
         test.plan.add_dimensions()->set_name("N");
         test.plan.mutable_dimensions(0)->set_size(-4);
       }},
      {"static shapes", [](SessionTest& test) { test.plan.mutable_preparation()->set_arena_bytes(64); }},
      {"impossible", [](SessionTest& test) { test.plan.set_arena_bytes(-1); }},
  };
  for (const Case& each : cases) {
    const v1::Plan plan_before = plan;
    const std::string weights_before = weights;
    each.damage(*this);
    const auto artifact = open();
    EXPECT_EQ(artifact.status().code(), absl::StatusCode::kInvalidArgument) << each.expected;
    EXPECT_NE(std::string(artifact.status().message()).find(each.expected), std::string::npos)
        << each.expected << ": " << artifact.status();
    plan = plan_before;
    weights = weights_before;
  }
}

TEST(TraceTest, IsJsonOfChromesForm) {
  const std::vector<RunEvent> events = {
      {.unit = "matrix", .name = "conv \"1\"", .step = "n", .start = 0, .cycles = 1500}};
  const std::string json = traceJson("chip", events, 1.5);
  EXPECT_NE(
      json.find(R"("ph":"X","pid":0,"tid":0,"name":"conv \"1\"","ts":0,"dur":1,"args":{"step":"n","cycles":1500})"),
      std::string::npos)
      << json;
}

}  // namespace
}  // namespace tessera::compiler::simulator
