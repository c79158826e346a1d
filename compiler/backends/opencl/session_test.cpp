// Artifacts for OpenCL devices, opened and run on the first device of the machine. Tests that need a device are skipped
// where there is none.
#include "compiler/backends/opencl/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "compiler/backends/opencl/kernel_code.h"
#include "compiler/backends/opencl/prelude.h"
#include "compiler/backends/plan_session/testing/loop_plan.h"
#include "compiler/backends/plan_session/testing/stored_zip.h"
#include "compiler/target/target.h"

namespace tessera::compiler::opencl {
namespace {

using Floats = std::array<float, kLoopPlanCount>;

std::string textOf(const Floats& values) { return {reinterpret_cast<const char*>(values.data()), sizeof values}; }

Floats floatsOf(const std::string& text) {
  Floats values = {};
  EXPECT_EQ(text.size(), sizeof values);
  std::memcpy(values.data(), text.data(), std::min(text.size(), sizeof values));
  return values;
}

/// loopPlan() as an artifact: y = x * (weight + 1) ^ trips.
class OpenClLoop : public ::testing::Test {
 public:
  absl::StatusOr<std::unique_ptr<OpenClArtifact>> open() {
    v1::SpatialKernel kernel = scaleAndAdd(kLoopPlanCount);
    const v1::Target& target = *findBuiltinTarget("opencl");
    if (absl::Status status = scheduleKernel(kernel, target, false); !status.ok()) return status;
    absl::StatusOr<v1::OpenClKernel> written = writeKernel(kernel, target);
    if (!written.ok()) return written.status();
    const std::string source = preludeOf(written->source()) + written->source();
    written->clear_source();
    v1::OpenClProgram program;
    *program.add_kernels() = *std::move(written);
    std::string weights = textOf({0, 1, 2, -1, 0.5F});
    weights.resize(64);
    zip_ = storedZip({{"manifest.pb", v1::Manifest().SerializeAsString()},
                      {"plan.pb", plan.SerializeAsString()},
                      {"launches.pb", program.SerializeAsString()},
                      {"kernels.cl", source},
                      {"weights.bin", weights}});
    ArtifactFile file;
    const RuntimeStatus status = ArtifactFile::fromMemory(zip_, &file);
    if (!status.ok()) return absl::InternalError(status.message());
    EXPECT_TRUE(OpenClArtifact::isOne(file));
    return OpenClArtifact::open(file, /*verify_weights=*/true);
  }

  /// Adds an input or output of one number of 8 bytes; returns its buffer.
  int addNumber(v1::Buffer::Kind kind, const char* name) {
    const bool input = kind == v1::Buffer::INPUT;
    v1::TensorSpec& spec = input ? *plan.add_inputs() : *plan.add_outputs();
    spec.set_name(name);
    spec.set_dtype(v1::DATA_TYPE_I64);
    return addPlanBuffer(plan, kind, (input ? plan.inputs_size() : plan.outputs_size()) - 1, 0, 8);
  }

  v1::Plan plan = loopPlan(3);

 private:
  std::vector<uint8_t> zip_;
};

TEST_F(OpenClLoop, IterationsAlternateBetweenTheTwoBuffersOfACarriedValue) {
  const auto artifact = open();
  ASSERT_EQ(artifact.status(), absl::OkStatus());
  const auto session = OpenClSession::create(**artifact, 0);
  if (session.status().code() == absl::StatusCode::kUnavailable) GTEST_SKIP() << session.status();
  ASSERT_EQ(session.status(), absl::OkStatus());
  std::vector<std::string> outputs;
  const std::string x = textOf({1, 2, 3, 4, 5});
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ((*session)->run(std::vector<std::string_view>{x}, outputs), absl::OkStatus());
    EXPECT_EQ(floatsOf(outputs.at(0)), (Floats{1, 16, 81, 0, 16.875F}));
  }
  EXPECT_GT((*session)->stepTimes().at(0), 0);
}

TEST_F(OpenClLoop, ARunDeterminesItsIterationsAndLearnsTheirNumber) {
  v1::StepLoop& loop = *plan.mutable_loops(0);
  loop.set_trip_count(addNumber(v1::Buffer::INPUT, "trips"));
  loop.set_executed(addNumber(v1::Buffer::OUTPUT, "executed"));
  loop.set_max_iterations(5000);
  const auto artifact = open();
  ASSERT_EQ(artifact.status(), absl::OkStatus());
  const auto session = OpenClSession::create(**artifact, 0);
  if (session.status().code() == absl::StatusCode::kUnavailable) GTEST_SKIP() << session.status();
  ASSERT_EQ(session.status(), absl::OkStatus());
  const std::string x = textOf({1, 2, 3, 4, 5});
  // The largest count exceeds the number of launches after which a run waits, and then the bound.
  for (const int64_t trips : {int64_t{2}, int64_t{0}, int64_t{1}, int64_t{7000}, int64_t{-3}}) {
    std::vector<std::string> outputs;
    const std::string_view count(reinterpret_cast<const char*>(&trips), sizeof trips);
    ASSERT_EQ((*session)->run(std::vector<std::string_view>{x, count}, outputs), absl::OkStatus());
    Floats wanted = {1, 2, 3, 4, 5};
    const Floats weights = {0, 1, 2, -1, 0.5F};
    const int64_t executed = std::clamp<int64_t>(trips, 0, 5000);
    for (int64_t i = 0; i < executed; ++i)
      for (size_t e = 0; e < wanted.size(); ++e) wanted[e] = weights[e] * wanted[e] + wanted[e];
    EXPECT_EQ(floatsOf(outputs.at(0)), wanted) << trips;
    int64_t found = -1;
    ASSERT_EQ(outputs.at(1).size(), sizeof found);
    std::memcpy(&found, outputs[1].data(), sizeof found);
    EXPECT_EQ(found, executed);
  }
}

TEST_F(OpenClLoop, DamagedArtifactsAreRefused) {
  plan.mutable_steps(0)->mutable_operands()->RemoveLast();
  EXPECT_THAT(std::string(open().status().message()), ::testing::HasSubstr("a step passes 2"));
  plan = loopPlan(3);
  plan.mutable_buffers(2)->set_size_bytes(16);
  EXPECT_THAT(std::string(open().status().message()), ::testing::HasSubstr("bytes, a step passes 16"));
}

}  // namespace
}  // namespace tessera::compiler::opencl
