// Checks of a run's inputs by the manifest alone.
#include "server/run_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"
#include "proto/messages/failure.h"
#include "tessera/v1/job.pb.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;
using Inputs = google::protobuf::RepeatedPtrField<v1::TensorValue>;

constexpr char kX[] = "inputs { name: 'x' dtype: DATA_TYPE_F32 shape: 1 shape: 8 }";

v1::Manifest manifestOf(const std::string& text) {
  v1::Manifest manifest;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &manifest));
  return manifest;
}

Inputs given(const std::string& text) {
  v1::ExecuteSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec.inputs();
}

struct Case {
  std::string inputs, field, message;
};

TEST(RunChecks, WhatDoesNotFitIsNamedWithItsPlace) {
  for (const Case& each : std::vector<Case>{
           {"", "execute.inputs", "input 'x' is missing; found no value, accepted f32[1,8]"},
           {"inputs { spec { name: 'y' } }", "execute.inputs[0].spec.name",
            "has no input 'y'; found 'y', accepted one of 'x'"},
           {"inputs { spec { name: 'x' dtype: DATA_TYPE_F64 shape: 1 shape: 8 } }", "execute.inputs[0].spec",
            "another type or shape; found f64[1,8], accepted f32[1,8]"},
           {"inputs { spec { name: 'x' dtype: DATA_TYPE_F32 shape: 8 } }", "execute.inputs[0].spec", "found f32[8]"},
           {"inputs { spec { name: 'x' dtype: DATA_TYPE_F32 shape: 2 shape: 8 } }", "execute.inputs[0].spec",
            "found f32[2,8]"},
       }) {
    const absl::Status status = checkRunInputs("execute.inputs", manifestOf(kX), given(each.inputs), false);
    const v1::Failure failure = failureOf(status);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << each.inputs;
    EXPECT_EQ(failure.attribute(), each.field);
    EXPECT_THAT(failure.message(), HasSubstr(each.message));
    EXPECT_NE(failure.fix(), "");
  }
}

TEST(RunChecks, WhatFitsIsTaken) {
  const Inputs x = given("inputs { spec { name: 'x' dtype: DATA_TYPE_F32 shape: 1 shape: 8 } data: '' }");
  EXPECT_TRUE(checkRunInputs("execute.inputs", manifestOf(kX), x, false).ok());
  EXPECT_TRUE(checkRunInputs("profile.inputs", manifestOf(kX), {}, true).ok()) << "what is not given is filled";
  EXPECT_TRUE(
      checkRunInputs("execute.inputs", manifestOf(std::string(kX) + "default_inputs { spec { name: 'x' } }"), {}, false)
          .ok());
  EXPECT_TRUE(
      checkRunInputs("execute.inputs", manifestOf(std::string(kX) + "fixed_inputs { spec { name: 'x' } }"), {}, false)
          .ok())
      << "a fixed input has its value";
}

TEST(RunChecks, WhichOfSeveralSizesIsLeftToTheTask) {
  const v1::Manifest ranged = manifestOf(std::string(kX) +
                                         "inputs { name: 'batch' dtype: DATA_TYPE_I64 }"
                                         "variants { dimensions { name: 'batch' size: -1 } }");
  const Inputs other = given("inputs { spec { name: 'x' dtype: DATA_TYPE_F32 shape: 5 shape: 8 } }");
  EXPECT_TRUE(checkRunInputs("execute.inputs", ranged, other, false).ok());
  const Inputs flat = given("inputs { spec { name: 'x' dtype: DATA_TYPE_F32 shape: 40 } }");
  EXPECT_FALSE(checkRunInputs("execute.inputs", ranged, flat, false).ok());
}

}  // namespace
}  // namespace tessera::server
