#include "clients/cli/model_flags.h"

#include <gtest/gtest.h>

#include <fstream>

#include "clients/cli/command.h"

namespace tessera::client {
namespace {

TEST(ParseShapeTest, ReadsNameAndExtents) {
  auto shape = parseShape("x=1x3x224x224");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->name(), "x");
  EXPECT_EQ(std::vector<int64_t>(shape->shape().begin(), shape->shape().end()), (std::vector<int64_t>{1, 3, 224, 224}));
}

TEST(ParseShapeTest, NamesMayHoldAnything) {
  auto shape = parseShape("a=b:0=7");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->name(), "a=b:0");
  EXPECT_EQ(shape->shape_size(), 1);
}

TEST(ParseShapeTest, AScalarHasNoExtents) {
  auto shape = parseShape("x=");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->shape_size(), 0);
}

TEST(ParseShapeTest, RefusesWhatIsNoShape) {
  for (const char* text : {"", "x", "=3", "x=3xN", "x=-1", "x=1x99999999999999999999"}) {
    EXPECT_EQ(parseShape(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseDurationTest, ReadsUnitsAndRefusesBareNumbers) {
  EXPECT_EQ(*parseDuration("1h30m"), 5'400'000'000);
  EXPECT_EQ(*parseDuration("250ms"), 250'000);
  EXPECT_FALSE(parseDuration("12").ok());
  EXPECT_FALSE(parseDuration("-1s").ok());
}

TEST(ModelFlagsTest, FillsTheSpec) {
  ModelFlags flags;
  flags.model = "somewhere/net.v2.onnx";
  flags.target = "cascadelake";
  flags.shapes = {"x=1x3"};
  flags.external_data = {"weights.bin=/data/w"};
  CompileRequest request;
  ASSERT_TRUE(flags.fill(request).ok());
  EXPECT_EQ(request.spec.name(), "net.v2");
  EXPECT_EQ(request.spec.target().name(), "cascadelake");
  EXPECT_EQ(request.external_data.at("weights.bin"), "/data/w");
  flags.external_data = {"no-file"};
  EXPECT_FALSE(flags.fill(request).ok());
}

TEST(ModelFlagsTest, TheEndingOrTheFlagSaysTheFormat) {
  ModelFlags flags;
  flags.target = "cascadelake";
  for (const auto& [model, format, want] :
       {std::tuple{"a.onnx", "", v1::MODEL_FORMAT_UNSPECIFIED}, std::tuple{"a.mlir", "", v1::MLIR_TEXT},
        std::tuple{"a.te", "", v1::TENSOR_EXPRESSION}, std::tuple{"a.txt", "te", v1::TENSOR_EXPRESSION},
        std::tuple{"a.te", "onnx", v1::ONNX}}) {
    flags.model = model;
    flags.format = format;
    CompileRequest request;
    ASSERT_TRUE(flags.fill(request).ok());
    EXPECT_EQ(request.spec.format(), want) << model << " " << format;
  }
}

TEST(ModelFlagsTest, TheHostIsDescribedHere) {
  ModelFlags flags;
  flags.model = "m.onnx";
  CompileRequest request;
  ASSERT_TRUE(flags.fill(request).ok());
  EXPECT_TRUE(request.spec.target().has_inline_());
  EXPECT_FALSE(request.spec.target().inline_().code().triple().empty());
}

}  // namespace
}  // namespace tessera::client
