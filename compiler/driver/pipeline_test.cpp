// Models end to end in one process (plan, build, assemble, load, run), compared with naive loops.
#include "compiler/driver/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "compiler/driver/model_format.h"
#include "compiler/driver/warm_up.h"
#include "compiler/runtime/tessera.h"
#include "compiler/target/host.h"
#include "compiler/target/target.h"
#include "onnx/onnx.pb.h"
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

/// A model under construction: one input "x", one output "y", f32 throughout.
class ModelBuilder {
 public:
  ModelBuilder(const std::vector<int64_t>& input, const std::vector<int64_t>& output) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(13);
    model_.mutable_graph()->set_name("test");
    describe(model_.mutable_graph()->add_input(), "x", input);
    describe(model_.mutable_graph()->add_output(), "y", output);
  }
  void weight(const std::string& name, const std::vector<int64_t>& shape, const Values& values) {
    onnx::TensorProto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t extent : shape) tensor->add_dims(extent);
    tensor->set_raw_data(values.data(), values.size() * 4);
  }
  onnx::NodeProto* node(const std::string& type, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto* node = model_.mutable_graph()->add_node();
    node->set_op_type(type);
    node->set_name(type + "_" + output);
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(output);
    return node;
  }
  static void attribute(onnx::NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) attribute->add_ints(value);
  }
  void write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    model_.SerializeToOstream(&file);
  }

 private:
  static void describe(onnx::ValueInfoProto* value, const char* name, const std::vector<int64_t>& shape) {
    value->set_name(name);
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (int64_t extent : shape) type->mutable_shape()->add_dim()->set_dim_value(extent);
  }
  onnx::ModelProto model_;
};

class PipelineTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "pipeline_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    request_.model_path = folder_ + "/model.onnx";
    request_.weights_path = folder_ + "/weights.bin";
    request_.spec.set_name("test");
    auto target = detectHostTarget();
    ASSERT_TRUE(target.ok()) << target.status();
    request_.target = *target;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Compiles the model to `path` and returns the manifest.
  v1::Manifest compile(const std::string& path) {
    auto planned = plan(request_, nullptr);
    EXPECT_EQ(planned.status(), absl::OkStatus());
    if (!planned.ok()) return {};
    AssembleRequest assembly;
    assembly.name = "test";
    assembly.plan = planned->plan;
    assembly.artifact_path = path;
    if (planned->has_weights) assembly.weights_path = request_.weights_path;
    for (const v1::BuildUnit& unit : planned->units) {
      auto object = build(unit);
      EXPECT_EQ(object.status(), absl::OkStatus()) << unit.ir();
      if (!object.ok()) return {};
      assembly.objects.push_back(*std::move(object));
    }
    auto manifest = assemble(assembly);
    EXPECT_EQ(manifest.status(), absl::OkStatus());
    return manifest.ok() ? *manifest : v1::Manifest();
  }

  Values run(const std::string& path, const Values& x, size_t outputs, int threads) {
    tessera_artifact* artifact = nullptr;
    EXPECT_EQ(tessera_artifact_load(path.c_str(), TESSERA_VERIFY_WEIGHTS, &artifact), TESSERA_OK)
        << tessera_last_error();
    tessera_session* session = nullptr;
    EXPECT_EQ(tessera_session_create(artifact, threads, &session), TESSERA_OK);
    Values y(outputs, std::nanf(""));
    const tessera_const_buffer input = {x.data(), x.size() * 4};
    const tessera_buffer output = {y.data(), y.size() * 4};
    // Runs twice: the second run must not depend on the arena's contents after the first.
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(tessera_session_run(session, &input, 1, &output, 1), TESSERA_OK) << tessera_last_error();
    }
    tessera_session_destroy(session);
    tessera_artifact_destroy(artifact);
    return y;
  }

  /// Compiles, runs with several thread counts, and compares within 1e-5 of the largest magnitude.
  void expectOutputs(const Values& x, const Values& expected) {
    const std::string path = folder_ + "/model.tsra";
    compile(path);
    float largest = 0;
    for (float value : expected) largest = std::max(largest, std::abs(value));
    for (int threads : {1, 3}) {
      const Values y = run(path, x, expected.size(), threads);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], expected[i], 1e-5f * largest) << "element " << i << ", " << threads << " threads";
      }
    }
  }

  std::string folder_;
  PlanRequest request_;
};

/// y = x W + b, x: rows x k, W: k x n.
Values dense(const Values& x, const Values& w, const Values& b, size_t rows, size_t k, size_t n) {
  Values y(rows * n);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = b[j];
      for (size_t r = 0; r < k; ++r) sum += static_cast<double>(x[i * k + r]) * w[r * n + j];
      y[i * n + j] = static_cast<float>(sum);
    }
  }
  return y;
}

Values relu(Values values) {
  for (float& value : values) value = std::max(value, 0.0f);
  return values;
}

/// 3x3, stride 2, padding 1; x: c x h x w, weights f x c x 3 x 3.
Values convolution(const Values& x, const Values& weights, const Values& bias, int64_t c, int64_t h, int64_t w,
                   int64_t f) {
  const int64_t oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
  Values y;
  for (int64_t o = 0; o < f; ++o) {
    for (int64_t i = 0; i < oh; ++i) {
      for (int64_t j = 0; j < ow; ++j) {
        double sum = bias[o];
        for (int64_t ch = 0; ch < c; ++ch) {
          for (int64_t p = 0; p < 3; ++p) {
            for (int64_t q = 0; q < 3; ++q) {
              const int64_t row = 2 * i + p - 1, column = 2 * j + q - 1;
              if (row < 0 || row >= h || column < 0 || column >= w) continue;
              sum += static_cast<double>(x[(ch * h + row) * w + column]) * weights[((o * c + ch) * 3 + p) * 3 + q];
            }
          }
        }
        y.push_back(static_cast<float>(sum));
      }
    }
  }
  return y;
}

TEST(WarmUp, CompilesForThisMachine) {
  const absl::Status status = warmUp();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(PipelineTest, MultilayerPerceptron) {
  const Values w1 = randomValues(70 * 130, 1), b1 = randomValues(130, 2);
  const Values w2 = randomValues(130 * 17, 3), b2 = randomValues(17, 4), x = randomValues(5 * 70, 5);
  ModelBuilder model({5, 70}, {5, 17});
  model.weight("w1", {70, 130}, w1);
  model.weight("b1", {130}, b1);
  model.weight("w2", {130, 17}, w2);
  model.weight("b2", {17}, b2);
  model.node("Gemm", {"x", "w1", "b1"}, "h");
  model.node("Relu", {"h"}, "a");
  model.node("Gemm", {"a", "w2", "b2"}, "y");
  model.write(request_.model_path);
  expectOutputs(x, dense(relu(dense(x, w1, b1, 5, 70, 130)), w2, b2, 5, 130, 17));
}

/// Convolution, activation, and a mean over the image: windows, padding and reductions.
TEST_F(PipelineTest, ConvolutionAndPooling) {
  constexpr int kChannels = 3, kHeight = 19, kWidth = 23, kFilters = 40;
  const Values weights = randomValues(kFilters * kChannels * 9, 1), bias = randomValues(kFilters, 2);
  const Values x = randomValues(kChannels * kHeight * kWidth, 3);
  ModelBuilder model({1, kChannels, kHeight, kWidth}, {1, kFilters, 1, 1});
  model.weight("w", {kFilters, kChannels, 3, 3}, weights);
  model.weight("b", {kFilters}, bias);
  onnx::NodeProto* conv = model.node("Conv", {"x", "w", "b"}, "c");
  ModelBuilder::attribute(conv, "strides", {2, 2});
  ModelBuilder::attribute(conv, "pads", {1, 1, 1, 1});
  ModelBuilder::attribute(conv, "kernel_shape", {3, 3});
  model.node("Relu", {"c"}, "r");
  model.node("GlobalAveragePool", {"r"}, "y");
  model.write(request_.model_path);
  const Values image = relu(convolution(x, weights, bias, kChannels, kHeight, kWidth, kFilters));
  Values expected;
  const size_t area = image.size() / kFilters;
  for (size_t f = 0; f < kFilters; ++f) {
    double sum = 0;
    for (size_t i = 0; i < area; ++i) sum += image[f * area + i];
    expected.push_back(static_cast<float>(sum / static_cast<double>(area)));
  }
  expectOutputs(x, expected);
}

TEST_F(PipelineTest, PlainLoopsGiveTheSameResult) {
  const Values w = randomValues(33 * 20, 1), b = randomValues(20, 2), x = randomValues(4 * 33, 3);
  ModelBuilder model({4, 33}, {4, 20});
  model.weight("w", {33, 20}, w);
  model.weight("b", {20}, b);
  model.node("Gemm", {"x", "w", "b"}, "y");
  model.write(request_.model_path);
  request_.spec.mutable_options()->set_opt_level(1);
  expectOutputs(x, dense(x, w, b, 4, 33, 20));
}

/// Equal layers, separate or as chains, are one workload with several steps, and the artifact is reproducible byte for
/// byte.
TEST_F(PipelineTest, EqualWorkloadsAreBuiltOnceAndArtifactsAreReproducible) {
  ModelBuilder model({8, 64}, {8, 64});
  const Values w = randomValues(64 * 64, 1);
  constexpr int kLayers = 16;  // more than one chain can hold
  std::string last = "x";
  for (int layer = 1; layer <= kLayers; ++layer) {
    const std::string weight = "w" + std::to_string(layer), next = layer == kLayers ? "y" : "h" + std::to_string(layer);
    model.weight(weight, {64, 64}, w);
    model.node("MatMul", {last, weight}, next);
    last = next;
  }
  model.write(request_.model_path);
  const v1::Manifest manifest = compile(folder_ + "/first.tsra");
  EXPECT_LT(manifest.kernels(), manifest.steps());
  EXPECT_EQ(manifest.scalar_kernels_size(), 0);
  EXPECT_EQ(manifest.model_sha256().size(), 64u);
  compile(folder_ + "/second.tsra");
  const auto bytes = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  EXPECT_EQ(bytes(folder_ + "/first.tsra"), bytes(folder_ + "/second.tsra"));
}

/// Keeps all results and counts look-ups.
struct StepsInMemory : StepCache {
  std::optional<std::string> find(const std::string& key) override {
    const auto entry = kept.find(key);
    found += entry != kept.end();
    return entry != kept.end() ? std::optional(entry->second) : std::nullopt;
  }
  void keep(const std::string& key, std::string result) override { kept[key] = std::move(result); }
  std::map<std::string, std::string> kept;
  int found = 0;
};

TEST_F(PipelineTest, ModelsWhoseWeightsAloneDifferShareAllStepsAndAreWhatTheyWouldBeWithout) {
  const auto make = [&](const std::string& name, unsigned seed, int64_t columns, StepCache* steps) {
    ModelBuilder model({8, 64}, {8, columns});
    model.weight("w", {64, columns}, randomValues(static_cast<size_t>(64 * columns), seed));
    model.node("MatMul", {"x", "w"}, "product");
    model.node("Relu", {"product"}, "y");
    model.write(request_.model_path);
    request_.weights_path = folder_ + "/" + name + ".weights";
    request_.steps = steps;
    auto planned = plan(request_, nullptr);
    EXPECT_TRUE(planned.ok()) << planned.status();
    AssembleRequest assembly;
    assembly.name = "model";
    for (const v1::BuildUnit& unit : planned->units) {
      bool known = false;
      auto object = build(unit, steps, known);
      EXPECT_TRUE(object.ok()) << object.status();
      assembly.objects.push_back(*object);
    }
    assembly.plan = planned->plan;
    assembly.weights_path = request_.weights_path;
    assembly.artifact_path = folder_ + "/" + name;
    assembly.steps = steps;
    const auto manifest = assemble(assembly);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    std::ifstream file(assembly.artifact_path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  StepsInMemory steps;
  const std::string first = make("first", 1, 32, &steps);
  EXPECT_EQ(steps.found, 0);
  EXPECT_EQ(steps.kept.size(), 3U) << "a schedule, an object, linked code";
  const std::string second = make("second", 2, 32, &steps);
  EXPECT_EQ(steps.found, 3);
  EXPECT_EQ(first, make("first anew", 1, 32, nullptr));
  EXPECT_EQ(second, make("second anew", 2, 32, nullptr));
  EXPECT_NE(first, second);
  const std::string other = make("other", 1, 48, &steps);
  EXPECT_EQ(steps.found, 3) << "another layer is another step";
  EXPECT_EQ(other, make("other anew", 1, 48, nullptr));
  // A message that cannot be parsed is recomputed. Linked code may be any bytes: the cache's owner guarantees its
  // integrity.
  for (auto& [key, result] : steps.kept) {
    if (!result.starts_with("\177ELF")) result = "\377\377\377";
  }
  steps.found = 0;
  EXPECT_EQ(second, make("second again", 2, 32, &steps));
}

TEST_F(PipelineTest, ProgressNamesPhasesAndReachesTheTotal) {
  ModelBuilder model({4, 4}, {4, 4});
  model.node("Relu", {"x"}, "y");
  model.write(request_.model_path);
  std::vector<v1::Progress> seen;
  const auto planned = plan(request_, [&](const v1::Progress& progress) { seen.push_back(progress); });
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_GE(seen.size(), 3u);
  EXPECT_EQ(seen.front().phase(), "import");
  EXPECT_EQ(seen.back().phase(), "plan");
  EXPECT_EQ(seen.back().done(), seen.back().total());
  EXPECT_FALSE(planned->has_weights);
}

/// Compiles for another architecture: the code is emitted, and the runtime refuses to load it here.
TEST_F(PipelineTest, CompilesForAnotherArchitecture) {
  const bool on_arm = request_.target.family() == v1::Target::AARCH64;
  request_.target = *findBuiltinTarget(on_arm ? "cascadelake" : "neoverse-n1");
  const Values w = randomValues(64 * 64, 1);
  ModelBuilder model({8, 64}, {8, 64});
  model.weight("w", {64, 64}, w);
  model.node("MatMul", {"x", "w"}, "y");
  model.write(request_.model_path);
  const std::string path = folder_ + "/other.tsra";
  EXPECT_EQ(compile(path).code().triple(), request_.target.code().triple());
  tessera_artifact* artifact = nullptr;
  EXPECT_EQ(tessera_artifact_load(path.c_str(), 0, &artifact), TESSERA_INCOMPATIBLE);
  EXPECT_THAT(tessera_last_error(), HasSubstr(request_.target.code().triple()));
}

TEST_F(PipelineTest, FailuresNameTheirPlace) {
  const auto failure = [&] {
    const auto planned = plan(request_, nullptr);
    EXPECT_FALSE(planned.ok());
    return planned.ok() ? v1::Failure() : failureOf(planned.status());
  };
  EXPECT_EQ(failure().reason(), v1::Failure::INVALID_MODEL);  // no such file
  std::ofstream(request_.model_path) << "module { func.func @main() { return } }";
  EXPECT_THAT(failure().message(), HasSubstr("no result"));
  std::ofstream(request_.model_path, std::ios::binary) << std::string("\xff\xff\xff\xff", 4);
  EXPECT_EQ(failure().reason(), v1::Failure::INVALID_MODEL);
  ModelBuilder model({4, 4}, {4, 4});
  model.node("Frobnicate", {"x"}, "y");
  model.write(request_.model_path);
  const v1::Failure unsupported = failure();
  EXPECT_EQ(unsupported.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(unsupported.op_type(), "Frobnicate");
  EXPECT_EQ(unsupported.node(), "Frobnicate_y");
}

TEST(ModelFormat, FirstBytesDecide) {
  EXPECT_EQ(formatOf("module attributes {}"), v1::MLIR_TEXT);
  EXPECT_EQ(formatOf("\n  // a comment\nmodule {"), v1::MLIR_TEXT);
  EXPECT_EQ(formatOf("#map = affine_map<(d0) -> (d0)>"), v1::MLIR_TEXT);
  EXPECT_EQ(formatOf("input A[2]; B[i] = A[i];"), v1::TENSOR_EXPRESSION);
  EXPECT_EQ(formatOf("\x08\x07\x12\x07pytorch"), v1::ONNX);
  EXPECT_EQ(formatOf(""), v1::ONNX);
}

}  // namespace
}  // namespace tessera::compiler
