// A kernel with an invalid memory access on a worker: only that task ends, and the failure names the kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "compiler/artifact/ir_kernels.h"
#include "compiler/driver/pipeline.h"
#include "workers/task_run.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kN = 1000;

v1::TaskResult execute(const compiler::SmallModel& model, int threads) {
  const TemporaryFolder temporary;
  compiler::AssembleRequest request;
  request.plan = model.plan;
  request.objects = model.objects;
  request.weights_path = temporary.path() + "/weights.bin";
  request.artifact_path = temporary.path() + "/model.tsra";
  std::ofstream(request.weights_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(model.weights.data()),
             static_cast<std::streamsize>(model.weights.size() * 4));
  const auto manifest = compiler::assemble(request);
  EXPECT_TRUE(manifest.ok()) << manifest.status();

  adoptOrphans();
  auto scratch = *Scratch::open(temporary.path() + "/scratch");
  AttemptFolder folder = *scratch->newAttempt();
  const std::string id(64, 'a');
  std::filesystem::copy_file(request.artifact_path, folder.input(id));
  v1::TaskSpec task;
  task.set_kind(v1::EXECUTE);
  task.add_inputs()->set_sha256(id);
  task.mutable_execute()->set_artifact_id(id);
  task.mutable_execute()->set_threads(threads);
  v1::TensorValue& x = *task.mutable_execute()->add_inputs();
  *x.mutable_spec() = model.plan.inputs(0);
  x.set_data(std::string(kN * 4, 0));
  TaskRunner runner;
  runner.binary = TESSERA_TASK;
  Cancellation attempt;
  return runTask(runner, task, folder, [](const v1::Progress&) {}, attempt);
}

TEST(ExecuteFault, NamesTheKernel) {
  for (int threads : {1, 3}) {
    const v1::TaskResult result = execute(compiler::strayModel(kN, {.read_bytes = int64_t{1} << 40}), threads);
    EXPECT_EQ(result.failure().reason(), v1::Failure::CRASHED) << result.DebugString();
    EXPECT_EQ(result.failure().signal(), SIGSEGV);
    EXPECT_THAT(result.failure().message(), HasSubstr("SIGSEGV in kernel mirror (step 1: second), phase 0"));
  }
}

TEST(ExecuteFault, SaysNothingWhereNothingIsWrong) {
  const v1::TaskResult result = execute(compiler::SmallModel(kN), 2);
  EXPECT_FALSE(result.has_failure()) << result.DebugString();
  EXPECT_EQ(result.execute().outputs_size(), 1);
}

}  // namespace
}  // namespace tessera::worker
