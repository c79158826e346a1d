// Every way for a task process to end, and what the worker makes of it.
#include "workers/task_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "workers/content_hash.h"
#include "workers/exit_codes.h"
#include "workers/sandbox/sandbox.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

using v1::Failure;

class TaskRunTest : public testing::Test {
 protected:
  void SetUp() override {
    adoptOrphans();
    scratch_ = *Scratch::open(temporary_.path());
    runner_.binary = TESSERA_MISBEHAVING_TASK;
    runner_.kill_grace = Milliseconds(100);
  }

  void TearDown() override {
    // No zombie and no living descendant, whatever the task did.
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  static v1::TaskSpec taskNamed(const std::string& behaviour, Profile profile = Profile::kCompile) {
    v1::TaskSpec task;
    task.set_kind(profile == Profile::kCompile ? v1::ASSEMBLE : v1::EXECUTE);
    task.mutable_assemble()->set_name(behaviour);
    return task;
  }

  v1::TaskResult run(const v1::TaskSpec& task, const std::function<void(const v1::Progress&)>& on_progress = {}) {
    folder_.emplace(*scratch_->newAttempt());
    for (const v1::Digest& input : task.inputs()) std::ofstream(folder_->input(input.sha256())) << "input";
    return runTask(
        runner_, task, *folder_,
        [&](const v1::Progress& progress) {
          if (on_progress) on_progress(progress);
        },
        attempt_);
  }

  Failure failureOf(const std::string& behaviour, Profile profile = Profile::kCompile) {
    return run(taskNamed(behaviour, profile)).failure();
  }

  TemporaryFolder temporary_;
  std::unique_ptr<Scratch> scratch_;
  std::optional<AttemptFolder> folder_;
  TaskRunner runner_;
  Cancellation attempt_;
};

TEST_F(TaskRunTest, SuccessCarriesTheResultAndItsCost) {
  const v1::TaskResult result = run(taskNamed("succeed:3"));
  ASSERT_FALSE(result.has_failure()) << result.failure().ShortDebugString();
  EXPECT_EQ(result.assemble().artifact_file(), "made");
  EXPECT_GT(result.usage().wall_ms(), 0);
  EXPECT_GT(result.usage().peak_rss_bytes(), 0);
}

TEST_F(TaskRunTest, FailureOfTheTaskItselfPassesThrough) {
  const Failure failure = failureOf("fail");
  EXPECT_EQ(failure.reason(), Failure::INVALID_MODEL);
  EXPECT_EQ(failure.message(), "node 'a': bad");
}

TEST_F(TaskRunTest, SignalsAreCrashes) {
  const std::pair<const char*, int> cases[] = {
      {"segfault", SIGSEGV}, {"abort", SIGABRT}, {"illegal", SIGILL}, {"fpe", SIGFPE}, {"kill-self", SIGKILL}};
  for (const auto& [behaviour, signal] : cases) {
    const Failure failure = failureOf(behaviour);
    EXPECT_EQ(failure.reason(), Failure::CRASHED) << behaviour;
    EXPECT_EQ(failure.signal(), signal) << behaviour;
  }
}

TEST_F(TaskRunTest, CrashMessageCarriesTheLastWords) {
  EXPECT_THAT(failureOf("abort").message(), testing::HasSubstr("assertion failed: everything"));
}

TEST_F(TaskRunTest, ExitCodesAreToldApart) {
  const std::pair<int, Failure::Reason> cases[] = {{0, Failure::INTERNAL},
                                                   {7, Failure::CRASHED},
                                                   {kTaskOutOfMemory, Failure::OUT_OF_MEMORY},
                                                   {kTaskCannotStart, Failure::INTERNAL},
                                                   {kTaskCannotReport, Failure::INTERNAL}};
  for (const auto& [code, reason] : cases) {
    EXPECT_EQ(failureOf("exit:" + std::to_string(code)).reason(), reason) << code;
  }
}

TEST_F(TaskRunTest, ResultThatCannotBeParsedIsInternal) {
  EXPECT_EQ(failureOf("garbage-result").reason(), Failure::INTERNAL);
}

TEST_F(TaskRunTest, MissingProgramIsNamed) {
  runner_.binary = "/nonexistent/tessera-task";
  const Failure failure = failureOf("succeed");
  EXPECT_EQ(failure.reason(), Failure::INTERNAL);
  EXPECT_THAT(failure.message(), testing::HasSubstr("/nonexistent/tessera-task"));
}

TEST_F(TaskRunTest, DeadlineEndsAnEndlessLoop) {
  v1::TaskSpec task = taskNamed("spin");
  task.set_run_timeout_us(200'000);
  const Failure failure = run(task).failure();
  EXPECT_EQ(failure.reason(), Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(failure.accepted(), "at most 200 ms");
}

TEST_F(TaskRunTest, DeadlineEndsATaskThatIgnoresSigterm) {
  v1::TaskSpec task = taskNamed("ignore-term");
  task.set_run_timeout_us(200'000);
  const Failure failure = run(task).failure();
  EXPECT_EQ(failure.reason(), Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(failure.signal(), SIGKILL);
}

TEST_F(TaskRunTest, EndlessOutputNeitherBlocksNorGrowsAnything) {
  v1::TaskSpec task = taskNamed("chatter");
  task.set_run_timeout_us(300'000);
  EXPECT_EQ(run(task).failure().reason(), Failure::RUN_DEADLINE_EXCEEDED);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !__has_feature(address_sanitizer) && \
    !__has_feature(thread_sanitizer)
TEST_F(TaskRunTest, UnboundedAllocationIsOutOfMemory) {
  v1::TaskSpec task = taskNamed("allocate");
  task.set_memory_limit_bytes(512 << 20);
  const Failure failure = run(task).failure();
  EXPECT_EQ(failure.reason(), Failure::OUT_OF_MEMORY);
  EXPECT_EQ(failure.accepted(), "at most 512 MiB of address space");
}
#endif

TEST_F(TaskRunTest, CancelEndsAWholeFamilyThatIgnoresSigterm) {
  // 1 + 2 + 4 processes, all of which must have said that they are ready before the cancel.
  int ready = 0;
  const Failure failure = run(taskNamed("unconfined-multiply"), [&](const v1::Progress&) {
                            if (++ready == 1) std::thread([this] { attempt_.cancel(StopReason::kCancelled); }).detach();
                          }).failure();
  EXPECT_EQ(failure.reason(), Failure::CANCELLED);
  EXPECT_EQ(failure.signal(), SIGKILL);
}

TEST_F(TaskRunTest, OrphansOfASuccessfulTaskAreEnded) {
  EXPECT_FALSE(run(taskNamed("unconfined-orphan")).has_failure());
}

TEST_F(TaskRunTest, CancelBeforeTheStartIsNotForgotten) {
  attempt_.cancel(StopReason::kLost);
  EXPECT_EQ(failureOf("sleep").reason(), Failure::LEASE_LOST);
}

TEST_F(TaskRunTest, StopInTimeForTheServersPromise) {
  // Cancel promises two seconds, of which half a second is the heartbeat's.
  EXPECT_LE(TaskRunner().kill_grace, Milliseconds(1000));
}

TEST_F(TaskRunTest, TaskStartsClean) {
  setenv("TESSERA_SECRET", "token", 1);
  const v1::TaskResult result = run(taskNamed("unconfined-self-check"));
  unsetenv("TESSERA_SECRET");
  EXPECT_FALSE(result.has_failure()) << result.failure().message();
}

TEST_F(TaskRunTest, ProgressArrivesInOrder) {
  std::vector<int> done;
  run(taskNamed("progress:50"), [&](const v1::Progress& progress) { done.push_back(progress.done()); });
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 3);
}

// ---- The sandbox ----

struct SandboxCase {
  const char* behaviour;
  Profile profile;
};

void PrintTo(const SandboxCase& each, std::ostream* stream) {
  *stream << profileName(each.profile) << " " << each.behaviour;
}

class ForbiddenCallTest : public TaskRunTest, public testing::WithParamInterface<SandboxCase> {};

TEST_P(ForbiddenCallTest, KillsTheTaskWithSigsys) {
  const Failure failure = failureOf(GetParam().behaviour, GetParam().profile);
  EXPECT_EQ(failure.reason(), Failure::SANDBOX_VIOLATION) << failure.ShortDebugString();
  EXPECT_EQ(failure.signal(), SIGSYS);
}

std::string nameOf(const testing::TestParamInfo<SandboxCase>& info) {
  std::string name = std::string(profileName(info.param.profile)) + "_" + info.param.behaviour;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

constexpr Profile kCompile = Profile::kCompile;
constexpr Profile kExecute = Profile::kExecute;

INSTANTIATE_TEST_SUITE_P(Compile, ForbiddenCallTest,
                         testing::Values(SandboxCase{"socket", kCompile}, SandboxCase{"unix-socket", kCompile},
                                         SandboxCase{"fork", kCompile}, SandboxCase{"exec", kCompile},
                                         SandboxCase{"ptrace", kCompile}, SandboxCase{"kill-parent", kCompile},
                                         SandboxCase{"setsid", kCompile}),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Execute, ForbiddenCallTest,
                         testing::Values(SandboxCase{"socket", kExecute}, SandboxCase{"unix-socket", kExecute},
                                         SandboxCase{"fork", kExecute}, SandboxCase{"exec", kExecute},
                                         SandboxCase{"ptrace", kExecute}, SandboxCase{"kill-parent", kExecute},
                                         SandboxCase{"setsid", kExecute}, SandboxCase{"create-outside", kExecute},
                                         SandboxCase{"create-in-scratch", kExecute},
                                         SandboxCase{"read-outside", kExecute}, SandboxCase{"rename", kExecute},
                                         SandboxCase{"unlink", kExecute}, SandboxCase{"mkdir", kExecute},
                                         SandboxCase{"thread", kExecute}),
                         nameOf);

TEST_F(TaskRunTest, CompileProfileAllowsThreadsAndFilesInScratch) {
  EXPECT_FALSE(run(taskNamed("thread")).has_failure());
  EXPECT_EQ(failureOf("create-in-scratch").message(), "the task exited with status 77 and no result");
}

TEST_F(TaskRunTest, ExecuteProfileAllowsComputing) {
  const v1::TaskResult result = run(taskNamed("compute", kExecute));
  ASSERT_FALSE(result.has_failure()) << result.failure().ShortDebugString();
  EXPECT_EQ(digestFile(folder_->output("early"))->size_bytes(), 6);
}

TEST_F(TaskRunTest, ExecuteProfileStillCountsMemoryAndCrashes) {
  EXPECT_EQ(failureOf("segfault", kExecute).signal(), SIGSEGV);
  EXPECT_EQ(failureOf("abort", kExecute).signal(), SIGABRT);
}

TEST_F(TaskRunTest, FilesOutsideScratchAreOutOfReach) {
  if (landlockAbi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  v1::TaskSpec task = taskNamed("write-input");
  task.add_inputs()->set_sha256(std::string(64, 'a'));
  // 78: refused with EACCES or EPERM.
  for (v1::TaskSpec each : {taskNamed("create-outside"), taskNamed("read-outside"), task}) {
    EXPECT_THAT(run(each).failure().message(), testing::StartsWith("the task exited with status 78"))
        << each.assemble().name();
  }
}

}  // namespace
}  // namespace tessera::worker
