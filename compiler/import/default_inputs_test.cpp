// Inputs with default values: initializers that are listed as inputs.
#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;

constexpr int kI64 = onnx::TensorProto::INT64;

template <typename Named>
std::vector<std::string> names(const Named& all) {
  std::vector<std::string> found;
  for (const auto& each : all) {
    if constexpr (requires { each.spec(); }) {
      found.push_back(each.spec().name());
    } else {
      found.push_back(each.name());
    }
  }
  return found;
}

class DefaultInputs : public testing::Test {
 protected:
  absl::StatusOr<ImportedModel> import(const ModelBuilder& b, int ir_version, const ImportOptions& options = {}) {
    onnx::ModelProto model = b.model;
    model.set_ir_version(ir_version);
    return importBytes(context_, model.SerializeAsString(), options);
  }

  mlir::MLIRContext context_;
};

/// y = x + bias, where bias is an input with default 10.
ModelBuilder biased() {
  ModelBuilder b;
  b.input("x", {3}).input("bias", {3}).output("y");
  b.initializer("bias", {3}, {10, 10, 10});
  b.node("Add", {"x", "bias"}, {"y"});
  return b;
}

TEST_F(DefaultInputs, AreInputsFromIrVersion4On) {
  auto model = import(biased(), 4);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(names(model->inputs), ElementsAre("x", "bias"));
  EXPECT_THAT(names(model->default_inputs), ElementsAre("bias"));
  EXPECT_EQ(model->default_inputs[0].data(), bytesOf<float>({10, 10, 10}));
  EXPECT_TRUE(model->fixed_inputs.empty());
  auto results = referenceRun(*std::move(model), {bytesOf<float>({1, 2, 3}), bytesOf<float>({-1, -2, -3})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0], bytesOf<float>({0, 0, 0}));
}

TEST_F(DefaultInputs, AreConstantsBefore) {
  auto model = import(biased(), 3);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(names(model->inputs), ElementsAre("x"));
  EXPECT_TRUE(model->default_inputs.empty());
}

TEST_F(DefaultInputs, WeightsThatAnExporterListsStayConstants) {
  ModelBuilder large;
  large.input("x", {1}).input("small", {1}).input("large", {20'000}).output("y");
  large.initializer("small", {1}, {2});
  large.initializer("large", {20'000}, std::vector<float>(20'000, 1));
  large.node("Mul", {"x", "large"}, {"wide"});
  large.node("Mul", {"small", "wide"}, {"y"});
  ModelBuilder many;
  many.input("x", {1}).output("v16");
  for (int i = 0; i <= 16; ++i) {
    const std::string weight = "w" + std::to_string(i);
    many.input(weight, {1});
    many.initializer(weight, {1}, {1});
    many.node("Add", {i == 0 ? "x" : "v" + std::to_string(i - 1), weight}, {"v" + std::to_string(i)});
  }
  for (const ModelBuilder& b : {large, many}) {
    auto model = import(b, 8);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(names(model->inputs), ElementsAre("x"));
  }
}

TEST_F(DefaultInputs, ThoseThatDecideShapesAreFixed) {
  ModelBuilder b;
  b.input("x", {2, 3}).input("shape", {2}, kI64).output("y");
  b.initializer("shape", std::vector<int64_t>{3, 2});
  b.node("Reshape", {"x", "shape"}, {"y"});
  auto model = import(b, 8);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(3, 2));
  EXPECT_THAT(names(model->fixed_inputs), ElementsAre("shape"));
  EXPECT_TRUE(model->default_inputs.empty());

  ImportOptions options;  // another value than the default
  v1::TensorValue& given = options.fixed_inputs["shape"];
  given.mutable_spec()->set_name("shape");
  given.mutable_spec()->set_dtype(v1::DATA_TYPE_I64);
  given.mutable_spec()->add_shape(2);
  given.set_data(bytesOf<int64_t>({6, 1}));
  model = import(b, 8, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(6, 1));
  EXPECT_EQ(model->fixed_inputs[0].data(), bytesOf<int64_t>({6, 1}));
}

TEST_F(DefaultInputs, ThoseThatTheModelCannotBeCompiledWithoutAreFixed) {
  ModelBuilder b;
  b.input("x", {1, 1, 2, 2}).input("scales", {4}).output("y");
  b.initializer("scales", {4}, {1, 1, 2, 2});
  b.node("Resize", {"x", "", "scales"}, {"y"});
  auto model = import(b, 8);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(1, 1, 4, 4));
  EXPECT_THAT(names(model->fixed_inputs), ElementsAre("scales"));
  onnx::ModelProto checked = b.model;
  checked.set_ir_version(8);
  const auto report = checkOnnx(context_, writeFile(checked.SerializeAsString()), {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->problems_size(), 0) << report->DebugString();
}

TEST_F(DefaultInputs, OfOpenSizesAreConstants) {
  ModelBuilder b;
  b.input("x", {-1}).input("bias", {-1}).output("y");
  b.initializer("bias", {3}, {10, 10, 10});
  b.node("Add", {"x", "bias"}, {"y"});
  ImportOptions options;
  options.dimensions["N"] = 3;
  auto model = import(b, 8, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(names(model->inputs), ElementsAre("x"));
}

}  // namespace
}  // namespace tessera::compiler
