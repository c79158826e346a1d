// Candidates that are right, wrong, crash and hang, each measured in a separate task process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "workers/task_run.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 1000;
constexpr char kHangs[] = R"(define void @copy(ptr %operands, i64 %lo, i64 %hi, ptr %workspace, ptr %scratch) {
entry:
  %h = load ptr, ptr %operands
  br label %loop
loop:
  %a = load volatile float, ptr %h
  br label %loop
}
)";

v1::BuiltObject mirrorOf(const compiler::SmallModel& model) {
  for (const v1::BuiltObject& object : model.objects) {
    if (object.info().workload_hash() == "mirror") return object;
  }
  ADD_FAILURE() << "there is no such object";
  return {};
}

void put(AttemptFolder& folder, v1::TaskSpec& task, char name, const google::protobuf::Message& message,
         v1::Digest& digest) {
  digest.set_sha256(std::string(64, name));
  *task.add_inputs() = digest;
  std::ofstream(folder.input(digest.sha256()), std::ios::binary) << message.SerializeAsString();
}

/// Adds the model's artifact as an input with that name.
void putArtifact(AttemptFolder& folder, v1::TaskSpec& task, char name, const compiler::SmallModel& model,
                 const std::string& scratch, v1::Digest& digest) {
  digest.set_sha256(std::string(64, name));
  *task.add_inputs() = digest;
  compiler::AssembleRequest request;
  request.name = "small";
  request.plan = model.plan;
  request.objects = model.objects;
  request.weights_path = scratch + "/weights-" + name;
  request.artifact_path = folder.input(digest.sha256());
  std::ofstream(request.weights_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(model.weights.data()),
             static_cast<std::streamsize>(model.weights.size() * 4));
  const auto manifest = compiler::assemble(request);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
}

v1::TaskResult measure(const v1::BuiltObject& candidate, int64_t timeout_us = 60'000'000) {
  const compiler::SmallModel model(kN);
  const TemporaryFolder temporary;
  adoptOrphans();
  auto scratch = *Scratch::open(temporary.path() + "/scratch");
  AttemptFolder folder = *scratch->newAttempt();
  v1::TaskSpec task;
  task.set_kind(v1::MEASURE);
  task.set_run_timeout_us(timeout_us);
  v1::MeasureTask& spec = *task.mutable_measure();
  spec.set_workload_hash("mirror");
  spec.set_seed(7);
  spec.mutable_rules()->set_repeat(9);
  v1::CandidateObject tried;
  *tried.mutable_object() = candidate;
  put(folder, task, 'a', model.plan, *spec.mutable_plan());
  put(folder, task, 'b', mirrorOf(model), *spec.mutable_baseline());
  put(folder, task, 'c', tried, *spec.mutable_candidate());
  TaskRunner runner;
  runner.binary = TESSERA_TASK;
  Cancellation attempt;
  return runTask(runner, task, folder, [](const v1::Progress&) {}, attempt);
}

TEST(MeasureTask, TimesARightOneInTurns) {
  const v1::TaskResult result = measure(mirrorOf(compiler::SmallModel(kN)));
  ASSERT_FALSE(result.has_failure()) << result.DebugString();
  EXPECT_EQ(result.measure().wrong(), "");
  EXPECT_GE(result.measure().baseline_ms_size(), 9);
  EXPECT_EQ(result.measure().baseline_ms_size(), result.measure().candidate_ms_size());
  for (const double ms : result.measure().candidate_ms()) EXPECT_GT(ms, 0);
  EXPECT_FALSE(result.measure().host().hostname().empty());
}

TEST(MeasureTask, OfTwoArtifactsTheStepsThatDifferAreSummed) {
  const compiler::SmallModel before(kN);
  compiler::SmallModel after(kN);
  after.plan.mutable_workloads(1)->set_hash("another mirror");
  for (v1::BuiltObject& object : after.objects)
    if (object.info().workload_hash() == "mirror") object.mutable_info()->set_workload_hash("another mirror");
  const TemporaryFolder temporary;
  adoptOrphans();
  auto scratch = *Scratch::open(temporary.path() + "/scratch");
  AttemptFolder folder = *scratch->newAttempt();
  v1::TaskSpec task;
  task.set_kind(v1::MEASURE);
  task.set_run_timeout_us(60'000'000);
  v1::MeasureTask& spec = *task.mutable_measure();
  spec.set_seed(7);
  put(folder, task, 'a', before.plan, *spec.mutable_plan());
  put(folder, task, 'b', after.plan, *spec.mutable_candidate_plan());
  putArtifact(folder, task, 'c', before, temporary.path(), *spec.mutable_baseline());
  putArtifact(folder, task, 'd', after, temporary.path(), *spec.mutable_candidate());
  TaskRunner runner;
  runner.binary = TESSERA_TASK;
  Cancellation attempt;
  const v1::TaskResult result = runTask(runner, task, folder, [](const v1::Progress&) {}, attempt);
  ASSERT_FALSE(result.has_failure()) << result.DebugString();
  const v1::MeasureTaskResult& measured = result.measure();
  EXPECT_EQ(measured.wrong(), "");
  ASSERT_GT(measured.baseline_ms_size(), 0);
  ASSERT_EQ(measured.baseline_own_ms_size(), measured.baseline_ms_size());
  ASSERT_EQ(measured.candidate_own_ms_size(), measured.candidate_ms_size());
  for (int run = 0; run < measured.baseline_ms_size(); ++run) {
    EXPECT_GT(measured.baseline_own_ms(run), 0);
    EXPECT_LT(measured.baseline_own_ms(run), measured.baseline_ms(run)) << "without the step that both have";
  }
}

TEST(MeasureTask, AWrongOneIsNotTimed) {
  // It copies instead of doubling and mirroring, and takes less time.
  const v1::TaskResult result = measure(mirrorOf(compiler::strayModel(kN, {})));
  ASSERT_FALSE(result.has_failure()) << result.DebugString();
  EXPECT_THAT(result.measure().wrong(), HasSubstr("result 'result0': off by"));
  EXPECT_EQ(result.measure().candidate_ms_size(), 0);
}

TEST(MeasureTask, ACrashIsTheAttemptsEnd) {
  const v1::TaskResult result = measure(mirrorOf(compiler::strayModel(kN, {.read_bytes = int64_t{1} << 40})));
  EXPECT_EQ(result.failure().reason(), v1::Failure::CRASHED) << result.DebugString();
  EXPECT_EQ(result.failure().signal(), SIGSEGV);
}

TEST(MeasureTask, AHangIsEnded) {
  const v1::TaskResult result =
      measure(compiler::compileIr(kHangs, "mirror", {compiler::phaseOf("copy", 1)}), 1'000'000);
  EXPECT_EQ(result.failure().reason(), v1::Failure::RUN_DEADLINE_EXCEEDED) << result.DebugString();
}

}  // namespace
}  // namespace tessera::worker
