// Models for a described chip end to end in one process: plan, build with every kernel checked, assemble; the plan's
// steps run kernel by kernel on the simulator, compared with naive loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "compiler/backends/spatial/kernel.h"
#include "compiler/driver/pipeline.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/runtime/artifact_reader.h"
#include "compiler/runtime/tessera.h"
#include "compiler/schedule/pins.h"
#include "compiler/schedule/text.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<float>;

Values randomValues(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Values values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

class SpatialPipelineTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "spatial_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    request_.model_path = folder_ + "/model.onnx";
    request_.weights_path = folder_ + "/weights.bin";
    request_.spec.set_name("test");
    request_.spec.mutable_options()->set_verify(true);
    request_.target = *findBuiltinTarget("ascend-910-like");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const ModelBuilder& model) const {
    std::ofstream file(request_.model_path, std::ios::binary);
    model.model.SerializeToOstream(&file);
  }

  /// Compiles the model to folder_/model.tsra.
  void compile() {
    absl::StatusOr<PlanResult> planned = plan(request_, nullptr);
    ASSERT_EQ(planned.status(), absl::OkStatus());
    AssembleRequest assembly;
    assembly.name = "test";
    assembly.plan = plan_ = planned->plan;
    assembly.artifact_path = folder_ + "/model.tsra";
    if (planned->has_weights) assembly.weights_path = request_.weights_path;
    for (const v1::BuildUnit& unit : planned->units) {
      absl::StatusOr<v1::BuiltObject> object = build(unit);
      ASSERT_EQ(object.status(), absl::OkStatus()) << unit.ir();
      assembly.objects.push_back(*std::move(object));
    }
    const absl::StatusOr<v1::Manifest> manifest = assemble(assembly);
    ASSERT_EQ(manifest.status(), absl::OkStatus());
    manifest_ = *manifest;
    ASSERT_TRUE(ArtifactFile::open(assembly.artifact_path, &file_).ok());
    std::span<const uint8_t> kernels;
    ASSERT_TRUE(file_.read(kKernelsEntry, &kernels).ok());
    ASSERT_TRUE(program_.ParseFromArray(kernels.data(), static_cast<int>(kernels.size())));
    ASSERT_EQ(program_.kernels_size(), plan_.workloads_size());
  }

  /// The bytes of a buffer: a part of an input or output, of the arena or of the weights.
  uint8_t* placeOf(const v1::Buffer& buffer) {
    auto& memory = memory_[{buffer.kind(), buffer.kind() <= v1::Buffer::OUTPUT ? buffer.index() : 0}];
    const auto end = static_cast<size_t>(buffer.offset() + buffer.size_bytes());
    if (memory.size() < end) memory.resize(end);
    return memory.data() + buffer.offset();
  }

  Values run(const Values& x, size_t outputs) {
    std::ifstream weights(request_.weights_path, std::ios::binary);
    memory_[{v1::Buffer::WEIGHT, 0}].assign(std::istreambuf_iterator<char>(weights), {});
    memory_[{v1::Buffer::ARENA, 0}].resize(static_cast<size_t>(plan_.arena_bytes()));
    memory_[{v1::Buffer::INPUT, 0}].resize(x.size() * 4);
    std::memcpy(memory_[{v1::Buffer::INPUT, 0}].data(), x.data(), x.size() * 4);
    for (const v1::Step& step : plan_.steps()) {
      const v1::SpatialKernel& kernel = program_.kernels(step.workload());
      auto loaded = simulator::LoadedKernel::load(kernel, request_.target);
      EXPECT_EQ(loaded.status(), absl::OkStatus());
      if (!loaded.ok()) return {};
      // Each operand in memory of its own, because results may lie over arguments.
      std::vector<std::vector<uint8_t>> own;
      std::vector<uint8_t*> operands;
      for (int operand : step.operands()) {
        const v1::Buffer& buffer = plan_.buffers(operand);
        const uint8_t* from = placeOf(buffer);
        own.emplace_back(from, from + buffer.size_bytes());
      }
      for (std::vector<uint8_t>& operand : own) operands.push_back(operand.data());
      EXPECT_EQ((*loaded)->run(operands), absl::OkStatus());
      for (size_t i = own.size() - static_cast<size_t>(kernel.results()); i < own.size(); ++i)
        std::memcpy(placeOf(plan_.buffers(step.operands(static_cast<int>(i)))), own[i].data(), own[i].size());
    }
    Values y(outputs);
    const std::vector<uint8_t>& bytes = memory_[{v1::Buffer::OUTPUT, 0}];
    EXPECT_EQ(bytes.size(), outputs * 4);
    std::memcpy(y.data(), bytes.data(), std::min(bytes.size(), outputs * 4));
    return y;
  }

  std::string folder_;
  PlanRequest request_;
  v1::Plan plan_;
  v1::Manifest manifest_;
  v1::SpatialProgram program_;
  ArtifactFile file_;
  std::map<std::pair<int, int>, std::vector<uint8_t>> memory_;
};

/// Products read factors of 11 bits: their error is relative to the sum of magnitudes.
void expectClose(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (float value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 4e-3f * largest) << i;
}

TEST_F(SpatialPipelineTest, LayersOfOddSizesAreRight) {
  constexpr int kRows = 5, kDepth = 19, kHidden = 33, kColumns = 7;
  const Values w = randomValues(kDepth * kHidden, 1), b = randomValues(kHidden, 2),
               v = randomValues(kHidden * kColumns, 3);
  ModelBuilder model;
  model.input("x", {kRows, kDepth}).output("y");
  model.initializer("w", {kDepth, kHidden}, w);
  model.initializer("b", {kHidden}, b);
  model.initializer("v", {kHidden, kColumns}, v);
  model.node("MatMul", {"x", "w"}, {"h"});
  model.node("Add", {"h", "b"}, {"g"});
  model.node("Relu", {"g"}, {"r"});
  model.node("MatMul", {"r", "v"}, {"y"});
  write(model);
  ASSERT_NO_FATAL_FAILURE(compile());
  const Values x = randomValues(kRows * kDepth, 4);
  Values expected(kRows * kColumns);
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < kHidden; ++k) {
      float hidden = b[static_cast<size_t>(k)];
      for (int d = 0; d < kDepth; ++d)
        hidden += x[static_cast<size_t>(i * kDepth + d)] * w[static_cast<size_t>(d * kHidden + k)];
      for (int j = 0; j < kColumns; ++j)
        expected[static_cast<size_t>(i * kColumns + j)] +=
            std::max(hidden, 0.0f) * v[static_cast<size_t>(k * kColumns + j)];
    }
  expectClose(run(x, expected.size()), expected);

  // Rounding is reported, with what it costs.
  const auto precision = std::ranges::find(plan_.report().decisions(), "precision", &v1::Decision::kind);
  ASSERT_NE(precision, plan_.report().decisions().end());
  EXPECT_THAT(precision->reason(), HasSubstr("2 products read operands rounded to f16"));
  EXPECT_THAT(precision->reason(), HasSubstr("outputs differ from the model's by at most"));
}

TEST_F(SpatialPipelineTest, ConvolutionsAreRight) {
  constexpr int kIn = 3, kOut = 5, kSize = 9, kHalf = 5;
  const Values w = randomValues(kOut * kIn * 9, 1), b = randomValues(kOut, 2);
  ModelBuilder model;
  model.input("x", {1, kIn, kSize, kSize}).output("y");
  model.initializer("w", {kOut, kIn, 3, 3}, w);
  model.initializer("b", {kOut}, b);
  onnx::NodeProto& conv = model.node("Conv", {"x", "w", "b"}, {"c"});
  setAttribute(conv, "strides", std::vector<int64_t>{2, 2});
  setAttribute(conv, "pads", std::vector<int64_t>{1, 1, 1, 1});
  model.node("Relu", {"c"}, {"y"});
  write(model);
  ASSERT_NO_FATAL_FAILURE(compile());
  const Values x = randomValues(kIn * kSize * kSize, 3);
  Values expected;
  for (int f = 0; f < kOut; ++f)
    for (int h = 0; h < kHalf; ++h)
      for (int q = 0; q < kHalf; ++q) {
        float sum = b[static_cast<size_t>(f)];
        for (int c = 0; c < kIn; ++c)
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s) {
              const int row = 2 * h + r - 1, column = 2 * q + s - 1;
              if (row < 0 || row >= kSize || column < 0 || column >= kSize) continue;
              sum += x[static_cast<size_t>((c * kSize + row) * kSize + column)] *
                     w[static_cast<size_t>(((f * kIn + c) * 3 + r) * 3 + s)];
            }
        expected.push_back(std::max(sum, 0.0f));
      }
  expectClose(run(x, expected.size()), expected);
}

TEST_F(SpatialPipelineTest, TheArtifactIsForTheSimulatorOnly) {
  ModelBuilder model;
  model.input("x", {3, 5}).output("y");
  model.node("Exp", {"x"}, {"y"});
  write(model);
  ASSERT_NO_FATAL_FAILURE(compile());
  EXPECT_TRUE(manifest_.simulated());
  EXPECT_EQ(manifest_.target_name(), "ascend-910-like");
  EXPECT_EQ(file_.find(kCodeEntry), nullptr);
  tessera_artifact* artifact = nullptr;
  EXPECT_EQ(tessera_artifact_load((folder_ + "/model.tsra").c_str(), 0, &artifact), TESSERA_INCOMPATIBLE);
  EXPECT_THAT(tessera_last_error(), HasSubstr("a program for the described chip ascend-910-like"));
}

TEST_F(SpatialPipelineTest, APlanIsReusedAndATreeThatDoesNotFitIsRefused) {
  ModelBuilder model;
  model.input("x", {5, 19}).output("y");
  model.initializer("w", {19, 7}, randomValues(19 * 7, 1));
  model.node("MatMul", {"x", "w"}, {"y"});
  write(model);
  ASSERT_NO_FATAL_FAILURE(compile());
  const v1::Plan first = plan_;
  request_.pins = pinsOf(first);
  request_.spec.set_pin_use(v1::WHOLE_PLAN);
  ASSERT_NO_FATAL_FAILURE(compile());
  ASSERT_EQ(plan_.workloads_size(), first.workloads_size());
  for (int w = 0; w < first.workloads_size(); ++w)
    EXPECT_EQ(printSchedule(plan_.workloads(w).schedule()), printSchedule(first.workloads(w).schedule()));
  // A phase is missing.
  request_.pins.mutable_workloads(0)->mutable_schedule()->mutable_phases()->RemoveLast();
  EXPECT_EQ(failureOf(plan(request_, nullptr).status()).reason(), v1::Failure::INVALID_SCHEDULE);
}

TEST_F(SpatialPipelineTest, RangesAreRefusedAndVariantsAreNot) {
  ModelBuilder model;
  model.input("x", {-1, 5}).output("y");
  model.node("Exp", {"x"}, {"y"});
  write(model);
  v1::DimensionBinding& dimension = *request_.spec.add_dimensions();
  dimension.set_name("N");
  dimension.set_size(-8);
  const v1::Failure failure = failureOf(plan(request_, nullptr).status());
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_INPUT);
  EXPECT_THAT(failure.message(), HasSubstr("dimension N is a range up to 8"));
  EXPECT_THAT(failure.fix(), HasSubstr("--dim"));
  dimension.set_size(8);
  compile();
}

}  // namespace
}  // namespace tessera::compiler
