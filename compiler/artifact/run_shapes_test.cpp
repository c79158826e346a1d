// Extents computed by a run, and fixed inputs: from the plan through the artifact's tables to the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes 0, 1, 2, ... to y, and the value of n to the extent.
constexpr char kFill[] = R"(
define void @fill(ptr %operands, i64 %lo, i64 %hi, ptr %workspace, ptr %scratch) {
entry:
  %n = load ptr, ptr %operands
  %pe = getelementptr ptr, ptr %operands, i64 1
  %e = load ptr, ptr %pe
  %py = getelementptr ptr, ptr %operands, i64 2
  %y = load ptr, ptr %py
  %extent = load i64, ptr %n
  store i64 %extent, ptr %e
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %real = sitofp i64 %i to float
  %place = getelementptr float, ptr %y, i64 %i
  store float %real, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 15
  br i1 %more, label %loop, label %exit
exit:
  ret void
})";

v1::TensorSpec specOf(const char* name, v1::DataType dtype, const std::vector<int64_t>& shape) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_dtype(dtype);
  for (int64_t extent : shape) spec.add_shape(extent);
  return spec;
}

/// n: i64[1], k: i64[2] (fixed) -> y: f32[3, <= 5]
class RunShapes : public testing::Test {
 protected:
  void SetUp() override {
    plan_ = SmallModel(1).plan;  // for its target
    plan_.clear_inputs();
    plan_.clear_outputs();
    plan_.clear_workloads();
    plan_.clear_buffers();
    plan_.clear_steps();
    plan_.set_weights_bytes(0);
    plan_.set_arena_bytes(64);
    *plan_.add_inputs() = specOf("n", v1::DATA_TYPE_I64, {1});
    *plan_.add_inputs() = specOf("k", v1::DATA_TYPE_I64, {2});
    *plan_.add_outputs() = specOf("y", v1::DATA_TYPE_F32, {3, 5});
    plan_.mutable_outputs(0)->add_bounded_dims(1);
    const std::pair<v1::Buffer::Kind, int64_t> buffers[] = {
        {v1::Buffer::INPUT, 8}, {v1::Buffer::ARENA, 8}, {v1::Buffer::OUTPUT, 60}};
    v1::Step* step = plan_.add_steps();
    step->set_name("fill");
    for (const auto& [kind, bytes] : buffers) {
      step->add_operands(plan_.buffers_size());
      v1::Buffer* buffer = plan_.add_buffers();
      buffer->set_kind(kind);
      buffer->set_size_bytes(bytes);
    }
    v1::Workload* workload = plan_.add_workloads();
    workload->set_hash("fill");
    workload->set_symbol("fill");
    v1::RuntimeExtent* extent = plan_.add_runtime_extents();
    extent->set_dimension(1);
    extent->set_buffer(1);
    v1::TensorValue* fixed = plan_.add_fixed_inputs();
    *fixed->mutable_spec() = plan_.inputs(1);
    const int64_t value[] = {7, -1};
    fixed->set_data(value, sizeof value);
    path_ = testing::TempDir() + "run_shapes.tsra";
  }
  void TearDown() override {
    tessera_session_destroy(session_);
    tessera_artifact_destroy(artifact_);
    std::filesystem::remove(path_);
  }

  void load(int threads = 1) {
    AssembleRequest request;
    request.name = "run_shapes";
    request.plan = plan_;
    request.objects = {compileIr(kFill, "fill", {phaseOf("fill", 1)})};
    request.objects[0].mutable_info()->set_num_results(2);  // e and y
    request.artifact_path = path_;
    const auto manifest = assemble(request);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->fixed_inputs_size(), 1);
    EXPECT_EQ(manifest->outputs(0).bounded_dims_size(), 1);
    ASSERT_EQ(tessera_artifact_load(path_.c_str(), 0, &artifact_), TESSERA_OK) << tessera_last_error();
    ASSERT_EQ(tessera_session_create(artifact_, threads, &session_), TESSERA_OK);
  }
  tessera_status run(int64_t n, std::vector<int64_t> k = {7, -1}) {
    const tessera_const_buffer inputs[] = {{&n, 8}, {k.data(), 16}};
    const tessera_buffer output = {y_.data(), 60};
    return tessera_session_run(session_, inputs, 2, &output, 1);
  }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> dims(2, -1);
    EXPECT_EQ(tessera_session_output_shape(session_, 0, dims.data()), TESSERA_OK);
    return dims;
  }

  v1::Plan plan_;
  std::string path_;
  tessera_artifact* artifact_ = nullptr;
  tessera_session* session_ = nullptr;
  std::vector<float> y_ = std::vector<float>(15, -1.0F);
};

TEST_F(RunShapes, EachRunHasItsOwnShapeAndDenseElements) {
  load(2);
  EXPECT_EQ(tessera_artifact_bounded_dims(artifact_, 0), 2U);
  EXPECT_EQ(tessera_artifact_bounded_dims(artifact_, 1), 0U);
  EXPECT_THAT(shape(), ElementsAre(3, 5));  // the bounds, before a run
  ASSERT_EQ(run(2), TESSERA_OK) << tessera_last_error();
  EXPECT_THAT(shape(), ElementsAre(3, 2));
  EXPECT_THAT(std::vector<float>(y_.begin(), y_.begin() + 6), ElementsAre(0, 1, 5, 6, 10, 11));
  ASSERT_EQ(run(0), TESSERA_OK);
  EXPECT_THAT(shape(), ElementsAre(3, 0));
  ASSERT_EQ(run(5), TESSERA_OK);
  EXPECT_THAT(shape(), ElementsAre(3, 5));
  for (size_t i = 0; i < y_.size(); ++i) EXPECT_EQ(y_[i], static_cast<float>(i));
}

TEST_F(RunShapes, ImpossibleExtentsAreNoResult) {
  load();
  for (const int64_t extent : {int64_t{6}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(run(extent), TESSERA_CORRUPT);
    EXPECT_THAT(tessera_last_error(), HasSubstr("dimension 1 of output 'y', at most 5"));
  }
  ASSERT_EQ(run(1), TESSERA_OK);  // the failed run has not damaged the session
  EXPECT_THAT(shape(), ElementsAre(3, 1));
}

TEST_F(RunShapes, AnErrorThatStepsFindIsTheRuns) {
  plan_.mutable_run_faults()->set_buffer(plan_.runtime_extents(0).buffer());
  plan_.mutable_run_faults()->add_messages("the run takes a branch that was left out");
  load();
  EXPECT_EQ(run(0), TESSERA_OK);
  EXPECT_EQ(run(1), TESSERA_RUN_FAULT);
  EXPECT_STREQ(tessera_last_error(), "the run takes a branch that was left out");
  EXPECT_EQ(run(2), TESSERA_CORRUPT) << "there is one message";
  EXPECT_EQ(run(0), TESSERA_OK);
}

TEST_F(RunShapes, AFixedInputTakesItsValueAlone) {
  load();
  const void* value = tessera_artifact_fixed_input(artifact_, 1);
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(static_cast<const int64_t*>(value)[0], 7);
  EXPECT_EQ(tessera_artifact_fixed_input(artifact_, 0), nullptr);
  EXPECT_EQ(run(2, {7, 5}), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(tessera_last_error(), HasSubstr("input 'k' was fixed to [7, -1] when the model was compiled, [7, 5]"));
  EXPECT_THAT(y_, testing::Each(-1.0F));  // nothing was written
  EXPECT_EQ(run(2), TESSERA_OK);
}

TEST_F(RunShapes, InputsWithAValueMayBeLeftOut) {
  v1::TensorValue* known = plan_.add_default_inputs();
  *known->mutable_spec() = plan_.inputs(0);
  const int64_t two = 2;
  known->set_data(&two, sizeof two);
  load();
  const void* value = tessera_artifact_default_input(artifact_, 0);
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(*static_cast<const int64_t*>(value), 2);
  EXPECT_EQ(tessera_artifact_fixed_input(artifact_, 0), nullptr) << "it may have any";
  EXPECT_EQ(tessera_artifact_default_input(artifact_, 1), tessera_artifact_fixed_input(artifact_, 1));
  EXPECT_EQ(tessera_artifact_default_input(artifact_, 2), nullptr);
  const tessera_buffer output = {y_.data(), 60};
  const tessera_const_buffer none[] = {{nullptr, 0}, {nullptr, 0}};
  ASSERT_EQ(tessera_session_run(session_, none, 2, &output, 1), TESSERA_OK) << tessera_last_error();
  EXPECT_THAT(shape(), ElementsAre(3, 2));
  ASSERT_EQ(tessera_session_run_guarded(session_, none, 2, &output, 1, TESSERA_GUARD_BACK), TESSERA_OK);
  ASSERT_EQ(run(4), TESSERA_OK) << tessera_last_error();  // a different value is accepted as well
  EXPECT_THAT(shape(), ElementsAre(3, 4));
  ASSERT_EQ(tessera_session_run(session_, none, 2, &output, 1), TESSERA_OK) << "given once, the default counts again";
  EXPECT_THAT(shape(), ElementsAre(3, 2));
}

TEST_F(RunShapes, WhatHasNoValueMustBeGiven) {
  load();
  const int64_t k[] = {7, -1};
  const tessera_const_buffer inputs[] = {{nullptr, 0}, {k, 16}};
  const tessera_buffer output = {y_.data(), 60};
  EXPECT_EQ(tessera_session_run(session_, inputs, 2, &output, 1), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(tessera_last_error(), HasSubstr("input 0"));
}

TEST_F(RunShapes, BadIndicesAreRefused) {
  load();
  int64_t dims[2];
  EXPECT_EQ(tessera_session_output_shape(session_, 1, dims), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_session_output_shape(session_, 0, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_session_output_shape(nullptr, 0, dims), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(tessera_artifact_fixed_input(nullptr, 0), nullptr);
}

TEST_F(RunShapes, TablesThatDoNotFitAreNotAssembled) {
  plan_.mutable_runtime_extents(0)->set_buffer(9);
  AssembleRequest request;
  request.plan = plan_;
  request.objects = {compileIr(kFill, "fill", {phaseOf("fill", 1)})};
  request.artifact_path = path_;
  EXPECT_THAT(std::string(assemble(request).status().message()), HasSubstr("an extent refers to buffer 9 of 3"));
}

}  // namespace
}  // namespace tessera::compiler
