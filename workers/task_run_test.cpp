// All ways in which a task process can end, and how the worker classifies them.
#include "workers/task_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "workers/child_exit.h"
#include "workers/exit_codes.h"
#include "workers/file_digest.h"
#include "workers/folder_size.h"
#include "workers/sandbox/sandbox.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

using v1::Failure;

/// How a task process is started.
enum class Start { kExecuted, kForked };

std::string nameOf(Start start) { return start == Start::kExecuted ? "Executed" : "Forked"; }

class TaskRunFixture : public testing::Test {
 protected:
  void setUp(Start start) {
    adoptOrphans();
    scratch_ = *Scratch::open(temporary_.path());
    runner_.kill_grace = Milliseconds(100);
    plan({.forks = start == Start::kForked});
    useProgram(TESSERA_MISBEHAVING_TASK, start);
  }

  void plan(const SandboxOptions& wishes) {
    const auto plan = planSandbox(wishes, temporary_.path());
    ASSERT_TRUE(plan.ok()) << plan.status();
    runner_.sandbox = *plan;
  }

  bool inForce(const std::string& measure) const {
    return std::any_of(runner_.sandbox.measures.begin(), runner_.sandbox.measures.end(),
                       [&](const v1::SandboxMeasure& each) { return each.name() == measure && each.in_force(); });
  }

  void useProgram(const std::string& binary, Start start) {
    runner_.binary = binary;
    if (start == Start::kForked) runner_.forks = std::make_shared<ForkServer>(binary, runner_.build);
  }

  void TearDown() override {
    runner_.forks.reset();
    // No zombie and no live descendant, whatever the task did.
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
        attempt_, steps_.get());
  }

  Failure failureOf(const std::string& behaviour, Profile profile = Profile::kCompile) {
    return run(taskNamed(behaviour, profile)).failure();
  }

  TemporaryFolder temporary_;
  std::unique_ptr<Scratch> scratch_;
  std::optional<AttemptFolder> folder_;
  TaskRunner runner_;
  Cancellation attempt_;
  std::unique_ptr<SharedStepCache> steps_;
};

constexpr Profile kCompile = Profile::kCompile;
constexpr Profile kExecute = Profile::kExecute;

class TaskRunTest : public TaskRunFixture, public testing::WithParamInterface<Start> {
 protected:
  void SetUp() override { setUp(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(, TaskRunTest, testing::Values(Start::kExecuted, Start::kForked),
                         [](const auto& info) { return nameOf(info.param); });

TEST_P(TaskRunTest, SuccessCarriesTheResultAndItsCost) {
  const v1::TaskResult result = run(taskNamed("succeed:3"));
  ASSERT_FALSE(result.has_failure()) << result.failure().ShortDebugString();
  EXPECT_EQ(result.assemble().artifact_file(), "made");
  EXPECT_GT(result.usage().wall_ms(), 0);
  EXPECT_GT(result.usage().peak_rss_bytes(), 0);
}

std::string contentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_P(TaskRunTest, WhatOneTaskMadeOfAStepTheNextOneKnows) {
  EXPECT_FALSE(run(taskNamed("step-cache:0")).has_failure()) << "without any it has no such descriptor";
  steps_ = *SharedStepCache::create(1 << 20);
  for (const char* made : {"", "made once", "made once"}) {
    const v1::TaskResult result = run(taskNamed("step-cache:1"));
    ASSERT_FALSE(result.has_failure()) << result.failure().ShortDebugString();
    EXPECT_EQ(contentOf(folder_->output("made")), made);
  }
  ASSERT_EQ(failureOf("segfault").reason(), Failure::CRASHED);
}

TEST_P(TaskRunTest, FailureOfTheTaskItselfPassesThrough) {
  const Failure failure = failureOf("fail");
  EXPECT_EQ(failure.reason(), Failure::INVALID_MODEL);
  EXPECT_EQ(failure.message(), "node 'a': bad");
}

TEST_P(TaskRunTest, SignalsAreCrashes) {
  const std::pair<const char*, int> cases[] = {
      {"segfault", SIGSEGV}, {"abort", SIGABRT}, {"illegal", SIGILL}, {"fpe", SIGFPE}, {"kill-self", SIGKILL}};
  for (const auto& [behaviour, signal] : cases) {
    const Failure failure = failureOf(behaviour);
    EXPECT_EQ(failure.reason(), Failure::CRASHED) << behaviour;
    EXPECT_EQ(failure.signal(), signal) << behaviour;
  }
}

TEST_P(TaskRunTest, MappedFilesThatTheDiskDoesNotHoldAreTheWorkersFault) {
  for (const char* behaviour : {"bus", "bus-of-llvm"}) {
    const Failure failure = failureOf(behaviour);
    EXPECT_EQ(failure.reason(), Failure::WORKER_FAULT) << behaviour << ": " << failure.message();
    EXPECT_EQ(failure.signal(), SIGBUS) << behaviour;
  }
  EXPECT_EQ(failureOf("bus", kExecute).reason(), Failure::CRASHED) << "code of strangers may raise what it likes";
}

TEST_P(TaskRunTest, CrashMessageCarriesTheLastWords) {
  EXPECT_THAT(failureOf("abort").message(), testing::HasSubstr("assertion failed: everything"));
}

TEST_P(TaskRunTest, ExitCodesAreToldApart) {
  const std::pair<int, Failure::Reason> cases[] = {{0, Failure::INTERNAL},
                                                   {7, Failure::CRASHED},
                                                   {kTaskOutOfMemory, Failure::OUT_OF_MEMORY},
                                                   {kTaskCannotStart, Failure::WORKER_FAULT},
                                                   {kTaskCannotReport, Failure::WORKER_FAULT}};
  for (const auto& [code, reason] : cases) {
    EXPECT_EQ(failureOf("exit:" + std::to_string(code)).reason(), reason) << code;
  }
}

TEST_P(TaskRunTest, ResultThatCannotBeParsedIsInternal) {
  EXPECT_EQ(failureOf("garbage-result").reason(), Failure::INTERNAL);
}

TEST_P(TaskRunTest, MissingProgramIsNamed) {
  useProgram("/nonexistent/tessera-task", GetParam());
  const Failure failure = failureOf("succeed");
  EXPECT_EQ(failure.reason(), Failure::WORKER_FAULT);
  EXPECT_THAT(failure.message(), testing::HasSubstr("/nonexistent/tessera-task"));
}

TEST_P(TaskRunTest, DeadlineEndsAnEndlessLoop) {
  v1::TaskSpec task = taskNamed("spin");
  task.set_run_timeout_us(200'000);
  const Failure failure = run(task).failure();
  EXPECT_EQ(failure.reason(), Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(failure.accepted(), "at most 200 ms");
}

TEST_P(TaskRunTest, DeadlineEndsATaskThatIgnoresSigterm) {
  v1::TaskSpec task = taskNamed("ignore-term");
  task.set_run_timeout_us(200'000);
  const Failure failure = run(task).failure();
  EXPECT_EQ(failure.reason(), Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(failure.signal(), SIGKILL);
}

TEST_P(TaskRunTest, EndlessOutputNeitherBlocksNorGrowsAnything) {
  v1::TaskSpec task = taskNamed("chatter");
  task.set_run_timeout_us(300'000);
  EXPECT_EQ(run(task).failure().reason(), Failure::RUN_DEADLINE_EXCEEDED);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !__has_feature(address_sanitizer) && \
    !__has_feature(thread_sanitizer)
TEST_P(TaskRunTest, UnboundedAllocationIsOutOfMemory) {
  v1::TaskSpec task = taskNamed("allocate");
  task.set_memory_limit_bytes(512 << 20);
  const Failure failure = run(task).failure();
  EXPECT_EQ(failure.reason(), Failure::OUT_OF_MEMORY);
  EXPECT_EQ(failure.accepted(), "at most 512 MiB of address space");
}
#endif

TEST_P(TaskRunTest, CancelEndsAWholeFamilyThatIgnoresSigterm) {
  // 1 + 2 + 4 processes. All of them have reported that they are ready before the cancellation.
  int ready = 0;
  const Failure failure = run(taskNamed("unconfined-multiply"), [&](const v1::Progress&) {
                            if (++ready == 1) std::thread([this] { attempt_.cancel(StopReason::kCancelled); }).detach();
                          }).failure();
  EXPECT_EQ(failure.reason(), Failure::CANCELLED);
  EXPECT_EQ(failure.signal(), SIGKILL);
}

TEST_P(TaskRunTest, OrphansOfASuccessfulTaskAreEnded) {
  EXPECT_FALSE(run(taskNamed("unconfined-orphan")).has_failure());
}

TEST_P(TaskRunTest, CancelBeforeTheStartIsNotForgotten) {
  attempt_.cancel(StopReason::kLeaseLost);
  EXPECT_EQ(failureOf("sleep").reason(), Failure::LEASE_LOST);
}

TEST_P(TaskRunTest, StopInTimeForTheServersPromise) {
  // A cancellation takes at most two seconds, including the heartbeat interval of half a second.
  EXPECT_LE(TaskRunner().kill_grace, Milliseconds(1000));
}

TEST_P(TaskRunTest, TaskStartsClean) {
  setenv("TESSERA_SECRET", "token", 1);
  const v1::TaskResult result = run(taskNamed("unconfined-self-check"));
  unsetenv("TESSERA_SECRET");
  EXPECT_FALSE(result.has_failure()) << result.failure().message();
}

TEST_P(TaskRunTest, ProgressArrivesInOrder) {
  std::vector<int> done;
  run(taskNamed("progress:50"), [&](const v1::Progress& progress) { done.push_back(progress.done()); });
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 3);
}

TEST_P(TaskRunTest, ProgramReplacedByAnotherBuildDoesNoTask) {
  const std::string program = temporary_.path() + "/task";
  std::filesystem::copy_file(TESSERA_MISBEHAVING_TASK, program);
  std::ofstream(program + ".build") << "former";
  int told = 0;
  runner_.build = "former";
  runner_.on_other_build = [&] { ++told; };
  useProgram(program, GetParam());
  EXPECT_FALSE(run(taskNamed("succeed")).has_failure());

  std::ofstream(program + ".build") << "latter";
  if (runner_.forks) kill(runner_.forks->pid(), SIGKILL);
  EXPECT_EQ(told, 0);
  const Failure failure = failureOf("succeed");
  EXPECT_EQ(failure.reason(), Failure::WORKER_FAULT);
  EXPECT_THAT(failure.message(), testing::HasSubstr("is of another build than its worker"));
  EXPECT_THAT(failure.message(), testing::HasSubstr("build latter, "));
  EXPECT_THAT(failure.message(), testing::HasSubstr("started with former"));
  EXPECT_THAT(failure.fix(), testing::HasSubstr("restart the worker"));
  EXPECT_EQ(told, 1);

  std::ofstream(program + ".build") << "former";
  EXPECT_FALSE(run(taskNamed("succeed")).has_failure());
}

// ---- Fork server ----

class ForkServerTest : public TaskRunFixture {
 protected:
  void SetUp() override { setUp(Start::kForked); }
};

TEST_F(ForkServerTest, IsStartedOnceAndAgainWhenItHasEnded) {
  EXPECT_FALSE(run(taskNamed("succeed")).has_failure());
  const pid_t first = runner_.forks->pid();
  EXPECT_FALSE(run(taskNamed("succeed")).has_failure());
  EXPECT_EQ(runner_.forks->pid(), first);
  kill(first, SIGKILL);
  EXPECT_FALSE(run(taskNamed("succeed")).has_failure());
  EXPECT_NE(runner_.forks->pid(), first);
}

TEST_F(ForkServerTest, OutlivesTasksThatCrash) {
  EXPECT_EQ(failureOf("segfault").signal(), SIGSEGV);
  const pid_t first = runner_.forks->pid();
  EXPECT_FALSE(run(taskNamed("succeed")).has_failure());
  EXPECT_EQ(runner_.forks->pid(), first);
}

TEST_F(ForkServerTest, ProgramThatCannotServeIsNamed) {
  useProgram("/bin/false", Start::kForked);
  const Failure failure = failureOf("succeed");
  EXPECT_EQ(failure.reason(), Failure::WORKER_FAULT);
  EXPECT_THAT(failure.message(), testing::HasSubstr("/bin/false --serve"));
}

TEST_F(ForkServerTest, StartWaitsUntilTheProgramIsReady) {
  runner_.forks = std::make_shared<ForkServer>("/bin/false");
  const absl::Status started = runner_.forks->start();
  EXPECT_EQ(started.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(started.message(), testing::HasSubstr("/bin/false --serve ended before it was ready"));
}

TEST_F(ForkServerTest, StartNamesAnotherBuild) {
  const absl::Status started = ForkServer(TESSERA_MISBEHAVING_TASK, "another").start();
  EXPECT_EQ(started.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(started.message(), testing::HasSubstr("build test, the worker started with another"));
}

TEST_F(ForkServerTest, StepThatFailsIsNamed) {
  ChildSpec spec = childSpecFor(runner_, taskNamed("succeed"), temporary_.path());
  spec.working_folder = "/nonexistent";
  const auto child = ChildProcess::start(
      spec, [](std::string_view) {}, [&](const auto&... how) { return runner_.forks->fork(how...); });
  ASSERT_TRUE(child.ok()) << child.status();
  const ChildExit end = (*child)->wait();
  EXPECT_THAT(end.not_started, testing::HasSubstr("working folder: No such file"));
  EXPECT_EQ(failureOfExit(end, spec).reason(), Failure::WORKER_FAULT);
}

/// The working folder of a process that a signal has stopped; nothing if it ended before the signal arrived.
std::optional<std::filesystem::path> folderOfStopped(pid_t pid) {
  const std::string process = absl::StrCat("/proc/", pid);
  while (true) {
    // "PID (NAME) STATE ...": T is stopped, Z has ended.
    const std::string state = contentOf(process + "/stat");
    const size_t name_end = state.rfind(") ");
    if (name_end == std::string::npos || state[name_end + 2] == 'Z' || state[name_end + 2] == 'X') return std::nullopt;
    std::error_code ended;
    if (state[name_end + 2] == 'T') {
      const auto folder = std::filesystem::read_symlink(process + "/cwd", ended);
      return ended ? std::nullopt : std::optional(folder);
    }
    std::this_thread::sleep_for(Milliseconds(1));
  }
}

// A process that is stopped before its task starts is ended within the same bounds; so are those queued after it. The
// test stops processes right after their birth: some have ended by then, others have started their task.
TEST_F(ForkServerTest, ChildThatNeverGetsReadyMeetsItsDeadline) {
  ChildSpec spec = childSpecFor(runner_, taskNamed("succeed"), temporary_.path());
  spec.working_folder = temporary_.path();
  spec.run_timeout = Milliseconds(200);
  const auto stopAtBirth = [&](const auto&... how) {
    auto spawned = runner_.forks->fork(how...);
    if (spawned.ok()) kill(spawned->processes.pid, SIGSTOP);
    return spawned;
  };
  bool caught = false;
  for (int attempt = 0; attempt < 100 && !caught; ++attempt) {
    const auto child = ChildProcess::start(spec, [](std::string_view) {}, stopAtBirth);
    ASSERT_TRUE(child.ok()) << child.status();
    const auto folder = folderOfStopped((*child)->pid());
    caught = folder && *folder != std::filesystem::path(spec.working_folder);
    EXPECT_FALSE(run(taskNamed("succeed")).has_failure());
    const StopReason stopped = (*child)->wait().stopped;
    if (folder) EXPECT_EQ(stopped, StopReason::kDeadline);
  }
  EXPECT_TRUE(caught) << "every process was ready before it could be stopped";
}

// ---- Sandbox ----

struct SandboxCase {
  const char* behaviour;
  Profile profile;
};

void PrintTo(const SandboxCase& each, std::ostream* stream) {
  *stream << profileName(each.profile) << " " << each.behaviour;
}

class ForbiddenCallTest : public TaskRunFixture, public testing::WithParamInterface<std::tuple<SandboxCase, Start>> {
 protected:
  void SetUp() override { setUp(std::get<Start>(GetParam())); }
};

TEST_P(ForbiddenCallTest, KillsTheTaskWithSigsys) {
  const auto& forbidden = std::get<SandboxCase>(GetParam());
  const Failure failure = failureOf(forbidden.behaviour, forbidden.profile);
  EXPECT_EQ(failure.reason(), Failure::SANDBOX_VIOLATION) << failure.ShortDebugString();
  EXPECT_EQ(failure.signal(), SIGSYS);
}

std::string nameOfCase(const testing::TestParamInfo<std::tuple<SandboxCase, Start>>& info) {
  const auto& [forbidden, start] = info.param;
  std::string name = nameOf(start) + "_" + std::string(profileName(forbidden.profile)) + "_" + forbidden.behaviour;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

auto eitherWay(std::initializer_list<SandboxCase> cases) {
  return testing::Combine(testing::ValuesIn(std::vector(cases)), testing::Values(Start::kExecuted, Start::kForked));
}

INSTANTIATE_TEST_SUITE_P(Compile, ForbiddenCallTest,
                         eitherWay({SandboxCase{"socket", kCompile}, SandboxCase{"unix-socket", kCompile},
                                    SandboxCase{"fork", kCompile}, SandboxCase{"exec", kCompile},
                                    SandboxCase{"ptrace", kCompile}, SandboxCase{"kill-parent", kCompile},
                                    SandboxCase{"setsid", kCompile}, SandboxCase{"symlink", kCompile},
                                    SandboxCase{"inotify", kCompile}, SandboxCase{"chown", kCompile},
                                    SandboxCase{"new-namespace", kCompile}, SandboxCase{"raise-limits", kCompile}}),
                         nameOfCase);
INSTANTIATE_TEST_SUITE_P(Execute, ForbiddenCallTest,
                         eitherWay({SandboxCase{"socket", kExecute}, SandboxCase{"unix-socket", kExecute},
                                    SandboxCase{"fork", kExecute}, SandboxCase{"exec", kExecute},
                                    SandboxCase{"ptrace", kExecute}, SandboxCase{"kill-parent", kExecute},
                                    SandboxCase{"setsid", kExecute}, SandboxCase{"create-outside", kExecute},
                                    SandboxCase{"create-in-scratch", kExecute}, SandboxCase{"read-outside", kExecute},
                                    SandboxCase{"rename", kExecute}, SandboxCase{"unlink", kExecute},
                                    SandboxCase{"mkdir", kExecute}, SandboxCase{"thread", kExecute}}),
                         nameOfCase);

TEST_P(TaskRunTest, CompileProfileAllowsThreadsAndFilesInScratch) {
  EXPECT_FALSE(run(taskNamed("thread")).has_failure());
  EXPECT_EQ(failureOf("create-in-scratch").message(), "the task exited with status 77 and no result");
}

#ifdef __x86_64__
TEST_P(TaskRunTest, TilesMayBeAskedForWhereArtifactsAreLoadedAndNothingElseOfThatCall) {
  EXPECT_FALSE(run(taskNamed("ask-for-tiles")).has_failure());
  for (const auto& [behaviour, profile] :
       {std::pair("set-segment", kCompile), {"set-segment", kExecute}, {"ask-for-tiles", kExecute}})
    EXPECT_EQ(failureOf(behaviour, profile).reason(), Failure::SANDBOX_VIOLATION) << behaviour;
}
#endif

TEST_P(TaskRunTest, ExecuteProfileAllowsComputing) {
  const v1::TaskResult result = run(taskNamed("compute", kExecute));
  ASSERT_FALSE(result.has_failure()) << result.failure().ShortDebugString();
  EXPECT_EQ(digestFile(folder_->output("early"))->size_bytes(), 6);
}

TEST_P(TaskRunTest, ExecuteProfileStillCountsMemoryAndCrashes) {
  EXPECT_EQ(failureOf("segfault", kExecute).signal(), SIGSEGV);
  EXPECT_EQ(failureOf("abort", kExecute).signal(), SIGABRT);
}

TEST_P(TaskRunTest, FilesOutsideScratchAreOutOfReach) {
  if (landlockAbi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  v1::TaskSpec task = taskNamed("write-input");
  task.add_inputs()->set_sha256(std::string(64, 'a'));
  // 78: rejected with EACCES, EPERM or EROFS.
  for (const v1::TaskSpec& each : {taskNamed("create-outside"), taskNamed("read-outside"), task}) {
    EXPECT_THAT(run(each).failure().message(), testing::StartsWith("the task exited with status 78"))
        << each.assemble().name();
  }
}

TEST_P(TaskRunTest, NoRightIsLeft) {
  if (geteuid() != 0) GTEST_SKIP() << "who is not root cannot empty the bounding set";
  EXPECT_FALSE(run(taskNamed("capabilities")).has_failure()) << failureOf("capabilities").message();
}

TEST_P(TaskRunTest, OpenFilesAreBounded) { EXPECT_FALSE(run(taskNamed("descriptors:1000")).has_failure()); }

TEST_P(TaskRunTest, WhoFillsItsFolderIsEnded) {
  plan({.forks = GetParam() == Start::kForked, .scratch_bytes = 16 << 20});
  const Failure failure = failureOf("fill");
  EXPECT_EQ(failure.reason(), Failure::LIMIT_EXCEEDED) << failure.ShortDebugString();
  EXPECT_EQ(failure.accepted(), "at most 16 MiB (the worker's --scratch-quota)");
}

TEST(FolderSizeTest, WhatIsClosedCountsToo) {
  // In a child without root, to which file modes apply.
  const TemporaryFolder temporary;
  ASSERT_EQ(chmod(temporary.path().c_str(), 0777), 0);
  const std::string root = temporary.path() + "/folder";
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(3);
    std::filesystem::create_directories(root + "/closed/inner");
    std::filesystem::create_directories(root + "/open");
    for (const char* file : {"/closed/inner/first", "/open/second"}) {
      std::ofstream(root + file) << std::string(1 << 20, 'x');
    }
    std::filesystem::create_directory_symlink("/", root + "/link");
    for (const char* folder : {"/closed/inner", "/closed"}) chmod((root + folder).c_str(), 0);
    const FolderSize size = sizeOf(root, "in");
    if (size.bytes < 2 << 20 || size.bytes > 3 << 20 || size.hidden) _exit(1);
    _exit(size.entries == 6 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: bytes, 2: entries, 3: no other user";
}

TEST_P(TaskRunTest, OtherAttemptsAreOutOfReach) {
  if (landlockAbi() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const AttemptFolder other = *scratch_->newAttempt();
  std::ofstream(other.path() + "/task.pb") << "somebody else's";
  const std::string number = other.path().substr(other.path().rfind('/') + 1);
  EXPECT_FALSE(run(taskNamed("peek:" + number)).has_failure()) << failureOf("peek:" + number).message();
}

TEST_F(ForkServerTest, TasksAreAlone) {
  if (!inForce("namespaces")) GTEST_SKIP() << "this machine allows no namespaces";
  const v1::TaskResult result = run(taskNamed("unconfined-alone"));
  EXPECT_FALSE(result.has_failure()) << result.failure().message();
}

/// Tasks of a separate user.
class OtherUserTest : public TaskRunFixture, public testing::WithParamInterface<Start> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "another user takes root";
    setUp(GetParam());
    plan({.user = "nobody", .forks = GetParam() == Start::kForked});
  }
};
INSTANTIATE_TEST_SUITE_P(, OtherUserTest, testing::Values(Start::kExecuted, Start::kForked),
                         [](const auto& info) { return nameOf(info.param); });

TEST_P(OtherUserTest, HasIt) {
  const std::string behaviour = "unconfined-user:" + std::to_string(runner_.sandbox.isolation.uid);
  const v1::TaskResult result = run(taskNamed(behaviour));
  ASSERT_FALSE(result.has_failure()) << result.failure().message();
  struct stat made{};
  ASSERT_EQ(stat(folder_->output("made").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, geteuid()) << "what it made is the worker's again";
}

TEST_P(OtherUserTest, ReadsItsInputsAndCannotChangeThem) {
  v1::TaskSpec task = taskNamed("succeed");
  task.add_inputs()->set_sha256(std::string(64, 'a'));
  EXPECT_FALSE(run(task).has_failure());
  task.mutable_assemble()->set_name("unconfined-write-input");
  EXPECT_THAT(run(task).failure().message(), testing::StartsWith("the task exited with status 78"));
}

TEST_P(OtherUserTest, SeesNoOtherAttemptEvenUnconfined) {
  const AttemptFolder other = *scratch_->newAttempt();
  std::ofstream(other.path() + "/task.pb") << "somebody else's";
  const std::string number = other.path().substr(other.path().rfind('/') + 1);
  EXPECT_FALSE(run(taskNamed("unconfined-peek:" + number)).has_failure());
}

TEST_P(OtherUserTest, ThreadsAreBounded) {
  runner_.sandbox.processes = 50;
  EXPECT_FALSE(run(taskNamed("threads:500")).has_failure());
}

TEST_P(OtherUserTest, CrashesAreToldAsEver) {
  EXPECT_EQ(failureOf("abort").signal(), SIGABRT);
  EXPECT_EQ(failureOf("socket").reason(), Failure::SANDBOX_VIOLATION);
}

// ---- Measures in force ----

TEST(MeasuresTest, FullAsksForAllAndSaysWhatIsMissing) {
  const auto plan = planSandbox({.namespaces = false}, "/tmp");
  ASSERT_TRUE(plan.ok());
  const absl::Status full = checkMeasures({"full"}, plan->measures);
  EXPECT_EQ(full.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* missing : {"namespaces (--no-namespaces)", "user (tasks run as the worker's user", "scratch ("}) {
    EXPECT_THAT(std::string(full.message()), testing::HasSubstr(missing));
  }
  EXPECT_TRUE(checkMeasures({"system-calls", "privileges", "limits"}, plan->measures).ok());
  EXPECT_FALSE(checkMeasures({"limits", "scratch"}, plan->measures).ok());
  EXPECT_EQ(checkMeasures({"fulll"}, plan->measures).code(), absl::StatusCode::kInvalidArgument);
}

TEST(MeasuresTest, UserThatTasksCannotHaveIsAnError) {
  EXPECT_EQ(planSandbox({.user = "no-such-user"}, "/tmp").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(planSandbox({.user = "root"}, "/tmp").status().code(), absl::StatusCode::kInvalidArgument);
  if (geteuid() != 0) {
    EXPECT_EQ(planSandbox({.user = "nobody"}, "/tmp").status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace tessera::worker
