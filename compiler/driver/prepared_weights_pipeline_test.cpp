// Prepared weights through the whole compiler: plan, build, assemble, load, run.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <vector>

#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"
#include "compiler/target/host.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {
namespace {

using Values = std::vector<float>;

constexpr int64_t kChannels = 64, kWidth = 45;
constexpr int64_t kFilterBytes = kChannels * kChannels * 9 * 2;

/// Multiples of 1/64 up to 1, which f16 represents exactly.
Values randomHalves(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 129) - 64) / 64;
  return values;
}

uint16_t halfOf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value == 0) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
}

void describe(onnx::ValueInfoProto& value, const char* name) {
  value.set_name(name);
  auto* type = value.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(1);
  type->mutable_shape()->add_dim()->set_dim_value(kChannels);
  type->mutable_shape()->add_dim()->set_dim_param("rows");
  type->mutable_shape()->add_dim()->set_dim_value(kWidth);
}

/// y = conv(x, w) in f16; x and y are f32.
onnx::ModelProto convolutionOfHalves(const Values& w) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("convolution");
  describe(*graph.add_input(), "x");
  describe(*graph.add_output(), "y");
  onnx::TensorProto* weight = graph.add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT16);
  for (int64_t extent : {kChannels, kChannels, int64_t{3}, int64_t{3}}) weight->add_dims(extent);
  std::vector<uint16_t> halves;
  for (float value : w) halves.push_back(halfOf(value));
  weight->set_raw_data(halves.data(), halves.size() * sizeof(uint16_t));
  const auto add = [&](const char* type, const char* input, const char* output) {
    onnx::NodeProto* node = graph.add_node();
    node->set_op_type(type);
    node->set_name(output);
    node->add_input(input);
    node->add_output(output);
    return node;
  };
  const auto set = [](onnx::NodeProto* node, const char* name, std::initializer_list<int64_t> values, bool list) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(list ? onnx::AttributeProto::INTS : onnx::AttributeProto::INT);
    for (int64_t value : values) list ? attribute->add_ints(value) : attribute->set_i(value);
  };
  set(add("Cast", "x", "half"), "to", {onnx::TensorProto::FLOAT16}, false);
  onnx::NodeProto* convolution = add("Conv", "half", "sums");
  convolution->add_input("w");
  set(convolution, "pads", {1, 1, 1, 1}, true);
  set(add("Cast", "sums", "y"), "to", {onnx::TensorProto::FLOAT}, false);
  return model;
}

Values convolution(const Values& x, const Values& w, int64_t rows) {
  Values y(x.size());
  for (int64_t k = 0; k < kChannels; ++k) {
    std::vector<double> plane(static_cast<size_t>(rows * kWidth), 0);
    for (int64_t c = 0; c < kChannels; ++c) {
      for (int64_t tap = 0; tap < 9; ++tap) {
        const double weight = w[static_cast<size_t>((k * kChannels + c) * 9 + tap)];
        for (int64_t i = std::max<int64_t>(0, 1 - tap / 3); i < std::min(rows, rows + 1 - tap / 3); ++i) {
          for (int64_t j = std::max<int64_t>(0, 1 - tap % 3); j < std::min(kWidth, kWidth + 1 - tap % 3); ++j)
            plane[static_cast<size_t>(i * kWidth + j)] +=
                weight * x[static_cast<size_t>((c * rows + i + tap / 3 - 1) * kWidth + j + tap % 3 - 1)];
        }
      }
    }
    for (size_t i = 0; i < plane.size(); ++i)
      y[static_cast<size_t>(k) * plane.size() + i] = static_cast<float>(plane[i]);
  }
  return y;
}

TEST(PreparedWeightsPipeline, FiltersOfHalvesStayHalvesInTheFile) {
  const std::string folder = testing::TempDir() + "prepared_weights_pipeline";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const Values w = randomHalves(kChannels * kChannels * 9, 1);
  PlanRequest request;
  request.model_path = folder + "/model.onnx";
  request.weights_path = folder + "/weights.bin";
  auto target = detectHostTarget();
  ASSERT_TRUE(target.ok()) << target.status();
  request.target = *target;
  {
    std::ofstream file(request.model_path, std::ios::binary);
    convolutionOfHalves(w).SerializeToOstream(&file);
  }
  const std::vector<int64_t> sizes = {40, 53};
  for (int64_t rows : sizes) {
    v1::DimensionBinding& binding = *request.spec.add_specializations()->add_dimensions();
    binding.set_name("rows");
    binding.set_size(rows);
  }
  auto planned = plan(request, nullptr);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_LE(planned->plan.weights_bytes(), kFilterBytes * 13 / 10);
  ASSERT_EQ(planned->plan.preparation().outputs_size(), 1) << "both variants read one";
  AssembleRequest assembly;
  assembly.plan = planned->plan;
  assembly.artifact_path = folder + "/model.tsra";
  assembly.weights_path = request.weights_path;
  for (const v1::BuildUnit& unit : planned->units) {
    auto object = build(unit);
    ASSERT_TRUE(object.ok()) << object.status();
    assembly.objects.push_back(*std::move(object));
  }
  const auto manifest = assemble(assembly);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_GE(manifest->prepared_bytes(), kFilterBytes * 3);  // blocks of 2x2 at least, in f32
  EXPECT_EQ(manifest->scalar_kernels_size(), 0);

  tessera_artifact* artifact = nullptr;
  ASSERT_EQ(tessera_artifact_load(assembly.artifact_path.c_str(), 0, &artifact), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(tessera_artifact_prepared_bytes(artifact), manifest->prepared_bytes());
  tessera_session* session = nullptr;
  ASSERT_EQ(tessera_session_create(artifact, 2, &session), TESSERA_OK) << tessera_last_error();
  for (int64_t rows : sizes) {
    const int64_t extents[] = {1, kChannels, rows, kWidth};
    const tessera_shape shape = {extents, 4};
    ASSERT_EQ(tessera_session_set_input_shapes(session, &shape, 1), TESSERA_OK) << tessera_last_error();
    const Values x = randomHalves(static_cast<size_t>(kChannels * rows * kWidth), static_cast<unsigned>(rows));
    const Values expected = convolution(x, w, rows);
    float largest = 0;
    for (float value : expected) largest = std::max(largest, std::abs(value));
    const tessera_const_buffer input = {x.data(), x.size() * 4};
    for (const bool guarded : {false, true}) {
      Values y(x.size(), std::nanf(""));
      const tessera_buffer output = {y.data(), y.size() * 4};
      ASSERT_EQ(guarded ? tessera_session_run_guarded(session, &input, 1, &output, 1, TESSERA_GUARD_BACK)
                        : tessera_session_run(session, &input, 1, &output, 1),
                TESSERA_OK)
          << tessera_last_error();
      for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], largest / 1024) << rows << " rows, " << i;
    }
  }
  tessera_session_destroy(session);
  tessera_artifact_destroy(artifact);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::compiler
