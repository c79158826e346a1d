// Inputs whose value is fixed for compilation.
#include "compiler/import/import.h"
#include "compiler/import/testing/model_builder.h"
#include "compiler/import/testing/reference_run.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kI64 = onnx::TensorProto::INT64;

v1::TensorValue integers(const std::string& name, const std::vector<int64_t>& values) {
  v1::TensorValue value;
  value.mutable_spec()->set_name(name);
  value.mutable_spec()->set_dtype(v1::DATA_TYPE_I64);
  value.mutable_spec()->add_shape(static_cast<int64_t>(values.size()));
  value.set_data(bytesOf(values));
  return value;
}

class FixedInputs : public testing::Test {
 protected:
  absl::StatusOr<ImportedModel> import(const ModelBuilder& b, const std::vector<v1::TensorValue>& fixed) {
    ImportOptions options;
    for (const v1::TensorValue& value : fixed) options.fixed_inputs[value.spec().name()] = value;
    return importBytes(context_, b.model.SerializeAsString(), options);
  }
  v1::Failure failure(const ModelBuilder& b, const std::vector<v1::TensorValue>& fixed) {
    auto imported = import(b, fixed);
    return imported.ok() ? v1::Failure() : failureOf(imported.status());
  }

  mlir::MLIRContext context_;
};

ModelBuilder reshape() {
  ModelBuilder b;
  b.input("x", {2, 3}).input("shape", {2}, kI64).output("y");
  b.node("Reshape", {"x", "shape"}, {"y"});
  return b;
}

TEST_F(FixedInputs, DecideShapesAndStayInputs) {
  auto model = import(reshape(), {integers("shape", {3, -1})});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(3, 2));
  ASSERT_EQ(model->inputs.size(), 2U);
  EXPECT_EQ(model->inputs[1].name(), "shape");
  ASSERT_EQ(model->fixed_inputs.size(), 1U);
  EXPECT_EQ(model->fixed_inputs[0].data(), bytesOf<int64_t>({3, -1}));
  auto main = *model->module->getOps<mlir::func::FuncOp>().begin();
  ASSERT_EQ(main.getNumArguments(), 2U);
  EXPECT_TRUE(main.getArgument(1).use_empty());
  auto results = referenceRun(*std::move(model), {bytesOf<float>({1, 2, 3, 4, 5, 6}), bytesOf<int64_t>({3, -1})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0], bytesOf<float>({1, 2, 3, 4, 5, 6}));
}

TEST_F(FixedInputs, BitsOfBfloat16ComeAsIntegers) {
  ModelBuilder b;
  for (const char* name : {"from", "to", "by"}) b.input(name, {}, onnx::TensorProto::BFLOAT16);
  b.output("y");
  b.node("Range", {"from", "to", "by"}, {"y"});
  auto bits = [](const std::string& name, uint16_t value, v1::DataType type) {
    v1::TensorValue given;
    given.mutable_spec()->set_name(name);
    given.mutable_spec()->set_dtype(type);
    given.set_data(bytesOf<uint16_t>({value}));
    return given;
  };
  const v1::TensorValue from = bits("from", 0x3f80, v1::DATA_TYPE_U16), by = bits("by", 0x4000, v1::DATA_TYPE_U16);
  auto model = import(b, {from, bits("to", 0x40e0, v1::DATA_TYPE_U16), by});  // 1 to 7 in steps of 2
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(3));
  EXPECT_EQ(failure(b, {from, bits("to", 0x40e0, v1::DATA_TYPE_F16), by}).found(), "f16");
}

TEST_F(FixedInputs, WithoutThemTheErrorNamesWhatToFix) {
  EXPECT_EQ(failure(reshape(), {}).fix(), "fix its value for compilation: --fix shape=...");
  // Through arithmetic as well; weights and shapes are not named.
  ModelBuilder b;
  b.input("x", {1, 3}).input("rows", {1}, kI64).input("columns", {1}, kI64).output("y");
  b.node("Mul", {"rows", "columns"}, {"count"});
  b.node("Shape", {"x"}, {"extents"});
  b.node("Concat", {"count", "columns"}, {"shape"});
  setAttribute(*b.graph().mutable_node(2), "axis", int64_t{0});
  b.node("Expand", {"x", "shape"}, {"y"});
  EXPECT_EQ(failure(b, {}).fix(), "fix its value for compilation: --fix columns=... --fix rows=...");
  EXPECT_EQ(failure(b, {integers("columns", {3})}).fix(), "fix its value for compilation: --fix rows=...");
  auto model = import(b, {integers("columns", {3}), integers("rows", {4})});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(12, 3));
}

TEST_F(FixedInputs, NoImageIsSuggested) {
  ModelBuilder b;
  b.input("x", {200, 200}).output("y");
  b.node("ArgMax", {"x"}, {"best"});
  b.node("Expand", {"x", "best"}, {"y"});
  setAttribute(*b.graph().mutable_node(0), "keepdims", int64_t{0});
  EXPECT_THAT(failure(b, {}).fix(), testing::Not(HasSubstr("--fix")));
}

TEST_F(FixedInputs, ValuesBindSymbolicDimensions) {
  ModelBuilder b;
  b.input("x", {-1, 3}).input("other", {-1}, kI64).output("y");
  b.node("Identity", {"x"}, {"y"});
  auto model = import(b, {integers("other", {1, 2, 3, 4})});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->outputs[0].shape(), ElementsAre(4, 3));
}

TEST_F(FixedInputs, OneNumberFitsAScalarAndAListOfOne) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {1, 1}}) {
    ModelBuilder b;
    b.input("k", shape, kI64).output("y");
    b.node("Identity", {"k"}, {"y"});
    auto model = import(b, {integers("k", {7})});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->inputs[0].shape_size(), static_cast<int>(shape.size()));
    EXPECT_EQ(model->fixed_inputs[0].spec().shape_size(), static_cast<int>(shape.size()));
  }
}

TEST_F(FixedInputs, WhatDoesNotFitIsRefusedByName) {
  struct Case {
    v1::Failure::Reason reason;
    const char* words;
    v1::TensorValue value;
  };
  v1::TensorValue floats = integers("shape", {1});
  floats.mutable_spec()->set_dtype(v1::DATA_TYPE_F64);
  v1::TensorValue torn = integers("shape", {1, 2});
  torn.set_data("torn");
  v1::TensorValue blob = integers("shape", {1, 2});
  blob.mutable_blob()->set_size_bytes(16);
  const Case cases[] = {
      {v1::Failure::INVALID_INPUT, "no input of the model", integers("sharpe", {1, 2})},
      {v1::Failure::INVALID_INPUT, "is f64, the model's input is i64", floats},
      {v1::Failure::INVALID_INPUT, "differs from the model's in dimension 0", integers("shape", {1, 2, 3})},
      {v1::Failure::INVALID_INPUT, "length that does not match", torn},
      {v1::Failure::LIMIT_EXCEEDED, "too large", blob},
      {v1::Failure::LIMIT_EXCEEDED, "too large", integers("shape", std::vector<int64_t>(8193, 1))},
  };
  for (const Case& one : cases) {
    const v1::Failure found = failure(reshape(), {one.value});
    EXPECT_EQ(found.reason(), one.reason) << found.message();
    EXPECT_THAT(found.message(), HasSubstr(one.words));
    EXPECT_EQ(found.attribute(), one.value.spec().name());
  }
  ModelBuilder b;
  b.input("x", {2}).output("y");
  b.initializer("w", {2}, {1, 2});
  b.node("Add", {"x", "w"}, {"y"});
  EXPECT_THAT(failure(b, {integers("w", {1, 2})}).message(), HasSubstr("an initializer: its value is the model's"));
}

}  // namespace
}  // namespace tessera::compiler
