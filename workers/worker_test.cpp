// A worker with real task processes against a server that stops, restarts and interrupts transfers.
#include "workers/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "proto/support/worker_exit.h"
#include "workers/backoff.h"
#include "workers/testing/fake_server.h"
#include "workers/testing/temporary_folder.h"

namespace tessera::worker {
namespace {

namespace fs = std::filesystem;
using v1::Failure;
using v1::HeartbeatResponse;

size_t entriesIn(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() : server_("unix:" + temporary_.path() + "/socket") {}

  void SetUp() override { adoptOrphans(); }

  void TearDown() override {
    if (worker_) finish();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    if (fs::exists(attempts())) {
      EXPECT_EQ(entriesIn(attempts()), 0);
    }
  }

  std::string attempts() const { return temporary_.path() + "/scratch/attempts"; }

  void startWorker(int slots = 1, int64_t min_free_bytes = 0, Milliseconds idle_limit = {}) {
    WorkerOptions options;
    options.idle_limit = idle_limit;
    options.server = "unix:" + temporary_.path() + "/socket";
    options.scratch = temporary_.path() + "/scratch";
    options.cache_bytes = 1 << 20;
    options.min_free_bytes = min_free_bytes;
    options.lease_wait = Milliseconds(100);
    options.runner.binary = program_;
    options.runner.build = "test";
    options.runner.kill_grace = Milliseconds(100);
    options.runner.forks = std::make_shared<ForkServer>(options.runner.binary, options.runner.build);
    forks_ = options.runner.forks;
    options.identity.set_worker_id("worker");
    options.identity.set_compiler_version("test");
    options.identity.set_slots(slots);
    worker_ = std::make_unique<Worker>(options);
    thread_ = std::thread([this] { exit_code_ = worker_->run(); });
  }

  int finish() {
    worker_->drain();
    thread_.join();
    worker_.reset();
    return exit_code_;
  }

  static v1::TaskSpec taskNamed(const std::string& behaviour) {
    v1::TaskSpec task;
    task.set_kind(v1::ASSEMBLE);
    task.mutable_assemble()->set_name(behaviour);
    return task;
  }

  // Runs another task, which shows that the worker is free and works.
  void expectWorking() {
    const auto report = server_.waitForReport(server_.addTask(taskNamed("succeed:1")));
    EXPECT_FALSE(report.result().has_failure()) << report.ShortDebugString();
  }

  TemporaryFolder temporary_;
  std::weak_ptr<ForkServer> forks_;
  std::string program_ = TESSERA_MISBEHAVING_TASK;
  FakeServer server_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
  int exit_code_ = -1;
};

TEST_F(WorkerTest, InputsBecomeOutputs) {
  server_.start();
  v1::TaskSpec task = taskNamed("succeed");
  *task.add_inputs() = server_.putBlob("first ");
  *task.add_inputs() = server_.putBlob("second");
  const std::string id = server_.addTask(task);
  startWorker();
  const auto report = server_.waitForReport(id);
  EXPECT_EQ(report.worker_id(), "worker");
  EXPECT_EQ(report.fencing_token(), 1);
  ASSERT_EQ(report.result().files_size(), 1) << report.ShortDebugString();
  EXPECT_EQ(server_.blob(report.result().files(0).digest().sha256()), "first second");
  EXPECT_GT(report.result().usage().wall_ms(), 0);
  EXPECT_EQ(finish(), 0);
}

TEST_F(WorkerTest, EndsWhenItsTaskProgramWasReplacedByAnotherBuild) {
  program_ = temporary_.path() + "/task";
  fs::copy_file(TESSERA_MISBEHAVING_TASK, program_);
  server_.start();
  startWorker();
  expectWorking();
  std::ofstream(program_ + ".build") << "latter";
  expectWorking();  // by the program that is already running
  kill(forks_.lock()->pid(), SIGKILL);
  const auto report = server_.waitForReport(server_.addTask(taskNamed("succeed:1")));
  EXPECT_EQ(report.result().failure().reason(), Failure::WORKER_FAULT) << report.ShortDebugString();
  thread_.join();
  EXPECT_EQ(exit_code_, kWorkerVersionMismatch);
  worker_.reset();
}

TEST_F(WorkerTest, CrashIsReported) {
  server_.start();
  startWorker();
  const auto report = server_.waitForReport(server_.addTask(taskNamed("segfault")));
  EXPECT_EQ(report.result().failure().reason(), Failure::CRASHED);
  EXPECT_EQ(report.result().failure().signal(), SIGSEGV);
  expectWorking();
}

TEST_F(WorkerTest, ProgressRidesOnHeartbeats) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("progress:2000"));
  const auto beat = server_.waitForHeartbeat(id, [](const auto& each) { return each.progress().done() == 3; });
  EXPECT_NE(beat.progress().phase(), "");
  EXPECT_EQ(beat.worker_id(), "worker");
  EXPECT_EQ(beat.fencing_token(), 1);
  EXPECT_GT(beat.run_us(), 0) << "its process runs, and its deadline with it";
  server_.setVerdict(id, HeartbeatResponse::ABORT_CANCELLED);
  EXPECT_EQ(server_.waitForReport(id).result().failure().reason(), Failure::CANCELLED);
}

TEST_F(WorkerTest, AWorkerThatCannotWorkSaysSoAndTakesNothing) {
  server_.start();
  startWorker();
  expectWorking();
  fs::rename(attempts(), temporary_.path() + "/aside");
  std::ofstream(attempts()) << "no folder";
  const std::string trouble =
      server_.waitForLeaseRequest([](const auto& each) { return !each.trouble().empty(); }).trouble();
  EXPECT_THAT(trouble, testing::HasSubstr(attempts()));
  const std::string id = server_.addTask(taskNamed("succeed:1"));
  server_.waitForLeaseRequest([](const auto& each) { return !each.trouble().empty(); });
  EXPECT_EQ(server_.reports(id), 0);
  fs::remove(attempts());
  fs::rename(temporary_.path() + "/aside", attempts());
  EXPECT_FALSE(server_.waitForReport(id).result().has_failure()) << "mended, it goes on by itself";
}

TEST(Backoff, DoublesToItsCapAndBeginsAnew) {
  Backoff pause(Milliseconds(100), Milliseconds(1000), 1);
  for (const int64_t whole : {100, 200, 400, 800, 1000, 1000}) {
    const int64_t drawn = pause.next().count();
    EXPECT_GE(drawn, whole / 2);
    EXPECT_LE(drawn, whole);
  }
  pause.reset();
  EXPECT_LE(pause.next(), Milliseconds(100));
}

TEST_F(WorkerTest, AQuestionThatIsAnsweredAtOnceWithNothingIsAskedEverMoreSeldom) {
  server_.start();
  startWorker(1, int64_t{1} << 60);  // in trouble (too little free space), to which the server responds at once
  server_.waitForLeaseRequest([](const v1::LeaseTaskRequest&) { return true; });
  std::this_thread::sleep_for(Milliseconds(2000));
  // Pauses of 50 to 100 ms, doubling. Without them there would be thousands of requests.
  EXPECT_GE(server_.leaseRequests(), 3U);
  EXPECT_LE(server_.leaseRequests(), 8U);
}

TEST_F(WorkerTest, TooLittleRoomIsTrouble) {
  server_.start();
  startWorker(1, int64_t{1} << 60);
  const auto asked = server_.waitForLeaseRequest([](const auto& each) { return !each.trouble().empty(); });
  EXPECT_THAT(asked.trouble(), testing::HasSubstr("--min-free"));
  EXPECT_EQ(asked.wait_us(), 0);
}

TEST_F(WorkerTest, TroubleIsLoggedOnceHoweverOftenItAsks) {
  std::ostringstream said;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  server_.start();
  startWorker(1, int64_t{1} << 60);
  for (int asked = 0; asked < 3; ++asked) server_.waitForLeaseRequest([](const auto&) { return true; });
  finish();
  spdlog::set_default_logger(before);
  const std::string log = said.str();
  EXPECT_GE(server_.leaseRequests(), 3U);
  const size_t first = log.find("this worker accepts no tasks");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("this worker accepts no tasks", first + 1), std::string::npos) << log;
}

TEST_F(WorkerTest, ItsOwnFailuresAreTheWorkersFault) {
  server_.start();
  startWorker();
  v1::TaskSpec task = taskNamed("nap:1");
  *task.add_inputs() = server_.putBlob("content");
  const std::string cache = temporary_.path() + "/scratch/cache";
  expectWorking();
  fs::remove_all(cache);
  std::ofstream(cache) << "no folder";
  const auto report = server_.waitForReport(server_.addTask(task));
  EXPECT_EQ(report.result().failure().reason(), Failure::WORKER_FAULT) << report.ShortDebugString();
}

TEST_F(WorkerTest, CancelEndsTheTaskAndFreesTheSlot) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("unconfined-multiply"));
  server_.waitForHeartbeat(id, [](const auto& heartbeat) { return heartbeat.progress().phase() == "ready"; });
  server_.setVerdict(id, HeartbeatResponse::ABORT_CANCELLED);
  EXPECT_EQ(server_.waitForReport(id).result().failure().reason(), Failure::CANCELLED);
  expectWorking();
}

TEST_F(WorkerTest, LostLeaseIsNotReported) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("sleep"));
  server_.waitForLease(id);
  server_.setVerdict(id, HeartbeatResponse::ABORT_LOST);
  expectWorking();
  EXPECT_EQ(server_.reports(id), 0);
}

TEST_F(WorkerTest, ResultOfAStaleTokenIsDropped) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("nap:50"));
  server_.setReportStatus(id, grpc::Status(grpc::StatusCode::ABORTED, "newer token"));
  server_.waitForReport(id);
  expectWorking();
  EXPECT_EQ(server_.reports(id), 1);
}

TEST_F(WorkerTest, TaskEndsWhenItsLeaseCannotBeValidAnyMore) {
  server_.behaviour.lease_us = 300'000;
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("sleep"));
  server_.waitForHeartbeat(id, [](const auto&) { return true; });
  server_.setHeartbeatsFail(true);
  expectWorking();  // the only slot is free again
  EXPECT_EQ(server_.reports(id), 0);
}

TEST_F(WorkerTest, ShortOutageOfHeartbeatsIsTolerated) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("nap:300"));
  server_.waitForLease(id);
  server_.setHeartbeatsFail(true);
  EXPECT_FALSE(server_.waitForReport(id).result().has_failure());
}

TEST_F(WorkerTest, TaskRunsOnWhileTheServerRestarts) {
  server_.behaviour.forget_worker_on_restart = true;
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("nap:500"));
  server_.waitForLease(id);
  while (entriesIn(attempts()) == 0) std::this_thread::yield();  // the response has arrived before the server stops
  server_.stop();
  server_.start();
  const auto report = server_.waitForReport(id);
  EXPECT_FALSE(report.result().has_failure()) << report.ShortDebugString();
  EXPECT_EQ(report.fencing_token(), 1);
  expectWorking();
  EXPECT_GE(server_.registrations(), 2);
}

TEST_F(WorkerTest, ResultThatIsReadyWhileTheServerIsAwayIsReportedLater) {
  server_.behaviour.lease_us = 300'000;  // expired long before the server is back, which decides by the token
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("nap:100"));
  server_.waitForLease(id);
  while (entriesIn(attempts()) == 0) std::this_thread::yield();
  server_.stop();
  // The worker has no observable effect before the server is back. Sleeping makes the interesting interleaving likely;
  // any other passes as well.
  // and any other interleaving passes as well.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  server_.start();
  const auto report = server_.waitForReport(id);
  EXPECT_FALSE(report.result().has_failure()) << report.ShortDebugString();
}

TEST_F(WorkerTest, WorkerWaitsForAServerThatIsNotThereYet) {
  startWorker();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server_.start();
  expectWorking();
}

TEST_F(WorkerTest, BrokenUploadIsResumed) {
  server_.behaviour.break_upload_after = 2 << 20;
  server_.start();
  startWorker();
  const auto report = server_.waitForReport(server_.addTask(taskNamed("succeed:" + std::to_string(5 << 20))));
  ASSERT_FALSE(report.result().has_failure()) << report.ShortDebugString();
  EXPECT_EQ(server_.blob(report.result().files(0).digest().sha256()), std::string(5 << 20, 'x'));
  EXPECT_THAT(server_.uploadOffsets(), testing::ElementsAre(0, 2 << 20));
}

TEST_F(WorkerTest, PresentOutputIsNotUploadedAgain) {
  server_.start();
  server_.putBlob(std::string(200'000, 'x'));
  startWorker();
  const auto report = server_.waitForReport(server_.addTask(taskNamed("succeed:200000")));
  ASSERT_FALSE(report.result().has_failure()) << report.ShortDebugString();
  EXPECT_THAT(server_.uploadOffsets(), testing::IsEmpty());
}

TEST_F(WorkerTest, WhatIsSmallComesWithTheLeaseAndGoesWithTheReport) {
  server_.behaviour.enclose_inputs = true;
  server_.start();
  v1::TaskSpec task = taskNamed("succeed");
  *task.add_inputs() = server_.putBlob("first ");
  *task.add_inputs() = server_.putBlob("second");
  startWorker();
  const auto small = server_.waitForReport(server_.addTask(task));
  ASSERT_EQ(small.result().files_size(), 1) << small.ShortDebugString();
  EXPECT_EQ(small.result().files(0).data(), "first second");
  EXPECT_EQ(server_.downloads(), 0);
  EXPECT_THAT(server_.uploadOffsets(), testing::IsEmpty());
  const auto large = server_.waitForReport(server_.addTask(taskNamed("succeed:65537")));
  EXPECT_EQ(large.result().files(0).data(), "");
  EXPECT_EQ(server_.blob(large.result().files(0).digest().sha256()).size(), 65537U);
  EXPECT_THAT(server_.uploadOffsets(), testing::ElementsAre(0));
}

TEST_F(WorkerTest, WhatATaskEnclosesGoesWithTheReportWithinBounds) {
  server_.start();
  startWorker();
  const auto small = server_.waitForReport(server_.addTask(taskNamed("enclose:65536")));
  ASSERT_EQ(small.result().files_size(), 1) << small.ShortDebugString();
  EXPECT_EQ(small.result().files(0).digest().size_bytes(), 65536);
  EXPECT_EQ(server_.blob(small.result().files(0).digest().sha256()), std::string(65536, 'x'));
  EXPECT_THAT(server_.uploadOffsets(), testing::IsEmpty());
  const auto large = server_.waitForReport(server_.addTask(taskNamed("enclose:65537")));
  EXPECT_EQ(large.result().failure().reason(), Failure::INTERNAL);
  EXPECT_THAT(large.result().failure().message(), testing::HasSubstr("'made' is inlined with 65537 bytes"));
}

TEST_F(WorkerTest, AnEnclosedInputThatIsNotItsDigestsIsRefused) {
  server_.behaviour.enclose_inputs = true;
  server_.start();
  v1::TaskSpec task = taskNamed("succeed");
  *task.add_inputs() = server_.putBlob("some bytes");
  server_.corruptBlob(task.inputs(0).sha256());
  startWorker();
  const auto report = server_.waitForReport(server_.addTask(task));
  EXPECT_EQ(report.result().failure().reason(), Failure::WORKER_FAULT) << report.ShortDebugString();
}

TEST_F(WorkerTest, DamagedInputIsRefused) {
  server_.start();
  startWorker();
  v1::TaskSpec task = taskNamed("succeed");
  *task.add_inputs() = server_.putBlob("content");
  server_.corruptBlob(task.inputs(0).sha256());
  const auto report = server_.waitForReport(server_.addTask(task));
  EXPECT_EQ(report.result().failure().reason(), Failure::WORKER_FAULT) << "the server vouches for what it sends";
  EXPECT_THAT(report.result().failure().message(), testing::HasSubstr(task.inputs(0).sha256()));
}

TEST_F(WorkerTest, AbsentInputIsNamed) {
  server_.start();
  startWorker();
  v1::TaskSpec task = taskNamed("succeed");
  task.add_inputs()->set_sha256(std::string(64, '0'));
  const auto report = server_.waitForReport(server_.addTask(task));
  EXPECT_EQ(report.result().failure().reason(), Failure::MISSING_BLOB);
}

TEST_F(WorkerTest, OutputsOutsideTheFolderAreRefused) {
  server_.start();
  startWorker();
  for (const char* behaviour : {"bad-name", "unconfined-link-output"}) {
    const auto report = server_.waitForReport(server_.addTask(taskNamed(behaviour)));
    EXPECT_EQ(report.result().failure().reason(), Failure::INTERNAL) << behaviour;
    EXPECT_EQ(report.result().files_size(), 0) << behaviour;
  }
}

TEST_F(WorkerTest, OtherCompilerIsRefusedForGood) {
  server_.behaviour.compiler_version = "another";
  server_.start();
  startWorker();
  thread_.join();
  worker_.reset();
  EXPECT_EQ(exit_code_, kWorkerVersionMismatch);
}

TEST_F(WorkerTest, DrainFinishesTheCurrentTask) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("nap:300"));
  server_.waitForLease(id);
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(server_.reports(id), 1);
}

TEST_F(WorkerTest, StopGivesTheTaskBack) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("unconfined-multiply"));
  server_.waitForHeartbeat(id, [](const auto& heartbeat) { return heartbeat.progress().phase() == "ready"; });
  worker_->stop();
  EXPECT_EQ(finish(), kWorkerStopped);
  ASSERT_EQ(server_.reports(id), 1) << "the task need not wait for the end of the lease";
  EXPECT_EQ(server_.waitForReport(id).result().failure().reason(), Failure::LEASE_LOST);
}

TEST_F(WorkerTest, StopDoesNotWaitForAServerThatIsAway) {
  server_.start();
  startWorker();
  const std::string id = server_.addTask(taskNamed("unconfined-multiply"));
  server_.waitForHeartbeat(id, [](const auto& heartbeat) { return heartbeat.progress().phase() == "ready"; });
  server_.stop();
  worker_->stop();
  EXPECT_EQ(finish(), kWorkerStopped);
  EXPECT_EQ(server_.reports(id), 0);
}

TEST_F(WorkerTest, AnIdleWorkerEndsByItself) {
  server_.start();
  const std::string id = server_.addTask(taskNamed("nap:300"));
  startWorker(1, 0, Milliseconds(200));
  EXPECT_FALSE(server_.waitForReport(id).result().has_failure());
  thread_.join();
  worker_.reset();
  EXPECT_EQ(exit_code_, 0);
}

TEST_F(WorkerTest, SecondWorkerCannotShareScratch) {
  server_.start();
  const auto held = *Scratch::open(temporary_.path() + "/scratch");
  startWorker();
  thread_.join();
  worker_.reset();
  EXPECT_EQ(exit_code_, kWorkerScratchUnusable);
}

TEST_F(WorkerTest, LeftoversOfAnEarlierProcessAreRemoved) {
  fs::create_directories(attempts() + "/7/in");
  std::ofstream(attempts() + "/7/in/blob") << "old";
  std::ofstream(fs::path(attempts()).parent_path() / "lock") << "";
  server_.start();
  startWorker();
  expectWorking();
  EXPECT_FALSE(fs::exists(attempts() + "/7"));
}

TEST_F(WorkerTest, HundredTasksLeaveNothingBehind) {
  server_.start();
  startWorker(2);
  const char* behaviours[] = {"succeed:1", "abort", "fail", "unconfined-orphan", "exit:9"};
  const v1::Digest input = server_.putBlob("shared");
  size_t descriptors_early = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> ids;
    for (const char* behaviour : behaviours) {
      v1::TaskSpec task = taskNamed(behaviour);
      *task.add_inputs() = input;
      ids.push_back(server_.addTask(task));
    }
    for (const std::string& id : ids) server_.waitForReport(id);
    if (round == 4) descriptors_early = entriesIn("/proc/self/fd");
  }
  // Both slots may be in a call; a leak would show up once per task.
  EXPECT_LT(entriesIn("/proc/self/fd"), descriptors_early + 20);
  EXPECT_EQ(finish(), 0);  // TearDown checks for processes and folders
}

}  // namespace
}  // namespace tessera::worker
