#include "clients/cli/model_flags.h"

#include <gtest/gtest.h>

#include <fstream>

#include "clients/cli/command.h"

namespace tessera::client {
namespace {

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
  flags.shapes.shapes = {"x=1x3"};
  flags.external_data = {"weights.bin=/data/w"};
  CompileRequest request;
  ASSERT_TRUE(flags.fill(request).ok());
  EXPECT_EQ(request.spec.name(), "net.v2");
  EXPECT_EQ(request.spec.target().name(), "cascadelake");
  EXPECT_EQ(request.external_data.at("weights.bin"), "/data/w");
  flags.external_data = {"no-file"};
  EXPECT_FALSE(flags.fill(request).ok());
}

TEST(ModelFlagsTest, StatesArePairsOrFoundByName) {
  ModelFlags flags;
  flags.target = "cascadelake";
  flags.states = {"h0=hn", "a=b=c", "auto"};
  CompileRequest request;
  ASSERT_TRUE(flags.fill(request).ok());
  EXPECT_TRUE(request.spec.state().automatic());
  ASSERT_EQ(request.spec.state().pairs_size(), 2);
  EXPECT_EQ(request.spec.state().pairs(0).input(), "h0");
  EXPECT_EQ(request.spec.state().pairs(0).output(), "hn");
  EXPECT_EQ(request.spec.state().pairs(1).output(), "b=c");
  for (const char* wrong : {"h0", "=hn", "h0="}) {
    flags.states = {wrong};
    EXPECT_FALSE(flags.fill(request).ok()) << wrong;
  }
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
