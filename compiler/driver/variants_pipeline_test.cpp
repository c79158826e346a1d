// Several specializations of a model through the whole compiler: plan, build, assemble, load, run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "compiler/driver/pipeline.h"
#include "compiler/driver/specializations.h"
#include "compiler/runtime/tessera.h"
#include "compiler/target/host.h"
#include "onnx/onnx.pb.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<float>;

constexpr int64_t kIn = 70, kOut = 50;

Values randomValues(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Values values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

/// y = relu(x w), x: ["rows", kIn].
onnx::ModelProto productModel(const Values& w) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("product");
  for (const char* name : {"x", "y"}) {
    onnx::ValueInfoProto* value = name[0] == 'x' ? graph.add_input() : graph.add_output();
    value->set_name(name);
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("rows");
    type->mutable_shape()->add_dim()->set_dim_value(name[0] == 'x' ? kIn : kOut);
  }
  onnx::TensorProto* weight = graph.add_initializer();
  weight->set_name("w");
  weight->set_data_type(onnx::TensorProto::FLOAT);
  weight->add_dims(kIn);
  weight->add_dims(kOut);
  weight->set_raw_data(w.data(), w.size() * 4);
  for (const auto& [type, input, output] : {std::tuple{"MatMul", "x", "h"}, std::tuple{"Relu", "h", "y"}}) {
    onnx::NodeProto* node = graph.add_node();
    node->set_op_type(type);
    node->set_name(type);
    node->add_input(input);
    if (input[0] == 'x') node->add_input("w");
    node->add_output(output);
  }
  return model;
}

Values product(const Values& x, const Values& w) {
  Values y(x.size() / kIn * kOut);
  for (size_t i = 0; i < x.size() / kIn; ++i) {
    for (size_t j = 0; j < kOut; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kIn; ++k) sum += static_cast<double>(x[i * kIn + k]) * w[k * kOut + j];
      y[i * kOut + j] = static_cast<float>(std::max(sum, 0.0));
    }
  }
  return y;
}

class VariantsPipeline : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "variants_pipeline_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    weights_ = randomValues(kIn * kOut, 1);
    request_.model_path = folder_ + "/model.onnx";
    request_.weights_path = folder_ + "/weights.bin";
    auto target = detectHostTarget();
    ASSERT_TRUE(target.ok()) << target.status();
    request_.target = *target;
    std::ofstream file(request_.model_path, std::ios::binary);
    productModel(weights_).SerializeToOstream(&file);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void specialize(const std::vector<int64_t>& rows) {
    request_.spec.clear_specializations();
    for (int64_t size : rows) bind(*request_.spec.add_specializations(), size);
  }
  template <typename Message>
  static void bind(Message& message, int64_t rows) {
    v1::DimensionBinding& binding = *message.add_dimensions();
    binding.set_name("rows");
    binding.set_size(rows);
  }
  v1::Failure failure() {
    auto planned = plan(request_, nullptr);
    EXPECT_FALSE(planned.ok());
    return failureOf(planned.status());
  }

  std::string folder_;
  Values weights_;
  PlanRequest request_;
};

TEST_F(VariantsPipeline, EachVariantComputesTheModelAtItsShapes) {
  specialize({8, 1, 3});
  std::vector<std::string> phases;
  auto planned = plan(request_, [&](const v1::Progress& progress) {
    if (progress.phase() == "import") phases.push_back(progress.detail());
  });
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_THAT(phases, ElementsAre("", HasSubstr("rows=1:"), HasSubstr("rows=3:"), HasSubstr("rows=8:")));
  AssembleRequest assembly;
  assembly.plan = planned->plan;
  assembly.artifact_path = folder_ + "/model.tsra";
  assembly.weights_path = request_.weights_path;
  std::set<std::string> hashes;
  for (const v1::BuildUnit& unit : planned->units) {
    EXPECT_TRUE(hashes.insert(unit.workload_hash()).second) << "a workload is there twice";
    auto object = build(unit);
    ASSERT_TRUE(object.ok()) << object.status();
    assembly.objects.push_back(*std::move(object));
  }
  ASSERT_EQ(assemble(assembly).status(), absl::OkStatus());

  tessera_artifact* artifact = nullptr;
  ASSERT_EQ(tessera_artifact_load(assembly.artifact_path.c_str(), TESSERA_VERIFY_WEIGHTS, &artifact), TESSERA_OK)
      << tessera_last_error();
  for (int threads : {1, 2}) {
    tessera_session* session = nullptr;
    ASSERT_EQ(tessera_session_create(artifact, threads, &session), TESSERA_OK);
    for (int64_t rows : {3, 8, 1, 8, 3}) {
      const int64_t extents[] = {rows, kIn};
      const tessera_shape shape = {extents, 2};
      ASSERT_EQ(tessera_session_set_input_shapes(session, &shape, 1), TESSERA_OK) << tessera_last_error();
      const Values x = randomValues(static_cast<size_t>(rows * kIn), static_cast<unsigned>(rows));
      Values y(static_cast<size_t>(rows * kOut), std::nanf(""));
      const tessera_const_buffer input = {x.data(), x.size() * 4};
      const tessera_buffer output = {y.data(), y.size() * 4};
      ASSERT_EQ(tessera_session_run(session, &input, 1, &output, 1), TESSERA_OK) << tessera_last_error();
      const Values expected = product(x, weights_);
      for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-4) << rows << " rows, element " << i;
    }
    tessera_session_destroy(session);
  }
  tessera_artifact_destroy(artifact);
}

TEST_F(VariantsPipeline, EqualWeightsAndWorkloadsAreThereOnce) {
  int64_t alone = 0;
  for (int64_t rows : {1, 3, 8}) {
    specialize({rows});
    auto planned = plan(request_, nullptr);
    ASSERT_TRUE(planned.ok()) << planned.status();
    EXPECT_EQ(planned->plan.variants_size(), 0);
    alone = std::max(alone, planned->plan.weights_bytes());
  }
  specialize({1, 3, 8});
  auto together = plan(request_, nullptr);
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_EQ(together->plan.variants_size(), 2);
  EXPECT_EQ(together->plan.weights_bytes(), alone);
  EXPECT_EQ(std::filesystem::file_size(request_.weights_path), static_cast<uintmax_t>(alone));
  EXPECT_EQ(together->plan.dimensions(0).size(), 1);
  EXPECT_EQ(together->plan.variants(1).dimensions(0).size(), 8);
  EXPECT_EQ(together->plan.variants(1).workloads_size(), 0);
  // The order of specializations does not matter.
  specialize({8, 3, 1});
  auto again = plan(request_, nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->plan.SerializeAsString(), together->plan.SerializeAsString());
}

TEST(LeastSizes, AreThoseBeyondTheNextSmallerVariant) {
  const auto variant = [](int64_t n, int64_t t) { return Bindings{{{"n", n}, {"t", t}}, {}}; };
  const std::vector<Bindings> variants = {variant(-1, 5), variant(-4, 5), variant(-16, 5), variant(-8, 7),
                                          variant(3, 5)};
  using Sizes = std::map<std::string, int64_t>;
  EXPECT_EQ(minSizes(variants, variants[0]), (Sizes{{"n", 1}}));
  EXPECT_EQ(minSizes(variants, variants[1]), (Sizes{{"n", 2}}));
  EXPECT_EQ(minSizes(variants, variants[2]), (Sizes{{"n", 5}}));
  EXPECT_EQ(minSizes(variants, variants[3]), (Sizes{{"n", 1}}));  // no other is for t of 7
  EXPECT_EQ(minSizes(variants, variants[4]), Sizes());
}

TEST_F(VariantsPipeline, ErrorsSayWhichVariantAndWhy) {
  EXPECT_EQ(failure().reason(), v1::Failure::UNBOUND_DIMENSION);
  EXPECT_THAT(failure().message(), HasSubstr("'rows'"));
  EXPECT_THAT(failure().fix(), HasSubstr("--dim rows=1"));

  specialize({3, 3});
  EXPECT_THAT(failure().message(), HasSubstr("two variants bind the same"));
  EXPECT_EQ(failure().found(), "rows=3");

  specialize({3, 4});
  bind(request_.spec, 3);
  EXPECT_THAT(failure().message(), HasSubstr("dimension 'rows' is bound twice"));
  request_.spec.clear_dimensions();

  // Different bindings with the same shapes: a run could not choose between them.
  request_.spec.mutable_specializations(1)->clear_dimensions();
  v1::InputShape& shape = *request_.spec.mutable_specializations(1)->add_input_shapes();
  shape.set_name("x");
  shape.add_shape(3);
  shape.add_shape(kIn);
  EXPECT_THAT(failure().message(), HasSubstr("two variants have the same input shapes"));

  shape.set_shape(1, kIn + 1);
  EXPECT_THAT(failure().message(), HasSubstr("variant x=3x71: "));

  specialize({});
  for (int64_t rows = 1; rows <= TESSERA_MAX_VARIANTS + 1; ++rows) bind(*request_.spec.add_specializations(), rows);
  EXPECT_EQ(failure().accepted(), "at most 64");
}

}  // namespace
}  // namespace tessera::compiler
