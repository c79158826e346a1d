// Every wait has a limit, and a client's limits and mistakes affect only its own jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/messages/failure.h"
#include "server/testing/scheduler_bench.h"
#include "storage/sqlite/database.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

v1::CreateJobRequest patient(v1::CreateJobRequest request, int64_t run_timeout_us) {
  request.set_run_timeout_us(run_timeout_us);
  return request;
}

TEST(Bounds, AShortTimeoutEndsItsOwnJobOnly) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job hurried = *bench.create(patient(bench.request("r1", "net", "a"), 1'000'000));
  const v1::Lease plan = bench.lease("w");
  const v1::Job calm = *bench.create(patient(bench.request("r2", "net", "a"), 60'000'000));
  ASSERT_EQ(calm.joined_job_id(), hurried.id());
  ASSERT_TRUE(bench.report("w", plan, failedResult(v1::Failure::RUN_DEADLINE_EXCEEDED)).ok());
  EXPECT_EQ(bench.job(hurried.id()).failure().reason(), v1::Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(bench.job(calm.id()).state(), v1::Job::RUNNING);
  const v1::Lease again = bench.lease("w");
  EXPECT_EQ(again.task_id(), plan.task_id());
  EXPECT_EQ(again.task().run_timeout_us(), 60'000'000);
  ASSERT_TRUE(bench.finish("w", again).ok());
  bench.runAll("w");
  EXPECT_EQ(bench.job(calm.id()).state(), v1::Job::SUCCEEDED);
}

TEST(Bounds, ASharedBuildOutlivesTheShorterOfTwoLimits) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job hurried = *bench.create(patient(bench.request("r1", "one", "shared"), 1'000'000));
  const v1::Job calm = *bench.create(patient(bench.request("r2", "two", "shared"), 60'000'000));
  v1::Lease build;
  for (int i = 0; i < 3 && build.task().kind() != v1::BUILD; ++i) {
    build = bench.lease("w");
    if (build.task().kind() != v1::BUILD) {
      ASSERT_TRUE(bench.finish("w", build).ok());
    }
  }
  ASSERT_EQ(build.task().run_timeout_us(), 1'000'000);
  const v1::Lease plan = bench.lease("w");
  ASSERT_TRUE(bench.finish("w", plan).ok()) << "the other one joins the build while it runs";
  ASSERT_TRUE(bench.report("w", build, failedResult(v1::Failure::RUN_DEADLINE_EXCEEDED)).ok());
  bench.runAll("w");
  EXPECT_EQ(bench.job(hurried.id()).failure().reason(), v1::Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(bench.job(calm.id()).state(), v1::Job::SUCCEEDED) << bench.job(calm.id()).failure().DebugString();
}

TEST(Bounds, AWrongSizeIsRefusedBeforeAnybodySharesIt) {
  SchedulerFixture bench;
  v1::CreateJobRequest request = bench.request("r1", "net", "a");
  const int64_t size = request.compile().model().size_bytes();
  request.mutable_compile()->mutable_model()->set_size_bytes(size + 1);
  const v1::Failure failure = failureOf(bench.create(request).status());
  EXPECT_EQ(failure.reason(), v1::Failure::INVALID_INPUT);
  EXPECT_EQ(failure.attribute(), "compile.model.size_bytes");
  EXPECT_EQ(failure.accepted(), std::to_string(size));
}

TEST(Bounds, ATotalDeadlineEndsAJobInWhateverState) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  v1::CreateJobRequest request = bench.request("r1", "net", "a b");
  request.set_total_timeout_us(30'000'000);
  const v1::Job job = *bench.create(request);
  ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING) << "its builds wait for a worker";
  bench.pass(31'000'000);
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::JOB_DEADLINE_EXCEEDED);
  EXPECT_EQ(bench.runAll("w"), 0) << "nobody wants its tasks";
}

TEST(Bounds, EveryJobHasDeadlines) {
  SchedulerFixture bench;
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  EXPECT_EQ(job.queue_deadline_us(), job.create_time_us() + bench.scheduler().rules().queue_timeout_us);
  EXPECT_EQ(job.deadline_us(), job.create_time_us() + bench.scheduler().rules().total_timeout_us);
}

TEST(Bounds, ATaskThatNoLiveWorkerTakesFailsAfterAWhile) {
  SchedulerFixture bench;
  bench.registerWorker("w", 1, {v1::PLAN, v1::ASSEMBLE});
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  const int64_t bound = bench.scheduler().rules().no_worker_us;
  bench.pass(bound / 2);
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING);
  bench.pass(2 * bound);
  const v1::Failure failure = bench.job(job.id()).failure();
  EXPECT_EQ(failure.reason(), v1::Failure::NO_WORKER);
  EXPECT_THAT(failure.message(), HasSubstr("BUILD"));
}

TEST(Bounds, AShortAbsenceOfWorkersFailsNothing) {
  SchedulerFixture bench;
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const int64_t bound = bench.scheduler().rules().no_worker_us;
  for (int i = 0; i < 6; ++i) {
    bench.pass(bound / 2);
    bench.registerWorker("w");  // present for a moment, and never polls
    bench.pass(bound / 4);
  }
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::QUEUED);
}

TEST(Bounds, AStalledServerTakesNoLeaseAway) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  bench.clock.advance(5 * bench.scheduler().rules().lease_us);  // the server stood still: it received no heartbeat
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::GO_ON);
  bench.pass(2 * bench.scheduler().rules().lease_us);
  EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::ABORT_LOST) << "a silent worker loses it all the same";
}

TEST(Bounds, MovingInputsIsNotRunning) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(patient(bench.request("r1", "net", "a"), 1'000'000));
  const v1::Lease lease = bench.lease("w");
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::GO_ON);
    bench.pass(1'000'000);
  }
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING);
}

TEST(Bounds, WithoutTheCacheNoWorkIsSharedThatUsesIt) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job cached = *bench.create(bench.request("r1", "net", "a"));
  v1::CreateJobRequest anew = bench.request("r2", "net", "a");
  anew.set_skip_cache(true);
  const v1::Job fresh = *bench.create(anew);
  EXPECT_EQ(fresh.joined_job_id(), "");
  anew.set_request_id("r3");
  EXPECT_EQ(bench.create(anew)->joined_job_id(), fresh.id()) << "what was begun anew serves both";
  bench.runAll("w");
  EXPECT_EQ(bench.job(cached.id()).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(bench.job(fresh.id()).state(), v1::Job::SUCCEEDED);
}

TEST(Bounds, OneBadRowDoesNotKeepOthersAlive) {
  SchedulerFixture bench;
  std::vector<std::string> jobs;
  for (int i = 0; i < 3; ++i) {
    v1::CreateJobRequest request = bench.request("r" + std::to_string(i), "m" + std::to_string(i), "a");
    request.set_queue_timeout_us(1'000'000);
    jobs.push_back(bench.create(request)->id());
  }
  {
    auto database = storage::SqliteDatabase::open(bench.folder.path() + "/tessera.db",
                                                  storage::SqliteDatabase::Mode::kReadWriteCreate);
    ASSERT_TRUE((*database)->prepareOnce("UPDATE jobs SET body = x'ff' WHERE id = ?").bind(jobs[0]).run().ok());
  }
  bench.clock.advance(2'000'000);
  EXPECT_THAT(std::string(bench.scheduler().sweep().message()), HasSubstr(jobs[0]));
  EXPECT_EQ(bench.job(jobs[1]).state(), v1::Job::FAILED);
  EXPECT_EQ(bench.job(jobs[2]).state(), v1::Job::FAILED);
}

}  // namespace
}  // namespace tessera::server
