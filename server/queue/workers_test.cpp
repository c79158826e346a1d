// Faulty workers: their tasks run elsewhere, and they get fewer and fewer tasks.
#include "server/queue/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/queue/wanted_workers.h"
#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

TEST(SickWorkers, AJobSurvivesAWorkerThatCanDoNothing) {
  SchedulerFixture bench;
  bench.registerWorker("sick");
  bench.registerWorker("well");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  int given_to_the_sick = 0;
  for (int i = 0; i < 20; ++i) {
    const v1::Lease lease = bench.lease("sick");
    if (!lease.task_id().empty()) {
      ++given_to_the_sick;
      ASSERT_TRUE(bench.report("sick", lease, failedResult(v1::Failure::WORKER_FAULT)).ok());
      EXPECT_EQ(bench.lease("sick").task_id(), "") << "another one lives that has not failed this task";
    }
    const v1::Lease done = bench.lease("well");
    if (!done.task_id().empty()) {
      ASSERT_TRUE(bench.finish("well", done).ok());
    }
  }
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED) << bench.job(job.id()).failure().DebugString();
  EXPECT_GT(given_to_the_sick, 0);
  EXPECT_LE(given_to_the_sick, bench.scheduler().rules().faults_before_suspension);
  EXPECT_EQ(bench.worker("sick").state(), v1::Worker::SUSPENDED);
  EXPECT_THAT(bench.worker("sick").trouble(), HasSubstr("WORKER_FAULT"));
  EXPECT_EQ(bench.worker("well").faults(), 0);
}

TEST(SickWorkers, ATaskNobodyCanDoEndsInTheEnd) {
  SchedulerFixture bench;
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const int bound = bench.scheduler().rules().worker_faults_before_failure;
  int attempts = 0;
  for (int i = 0; i < 4 * bound && bench.job(job.id()).state() < v1::Job::SUCCEEDED; ++i) {
    const std::string worker = "w" + std::to_string(i % 2);
    bench.registerWorker(worker, i);
    const v1::Lease lease = bench.lease(worker);
    if (!lease.task_id().empty()) {
      ++attempts;
      ASSERT_TRUE(bench.report(worker, lease, failedResult(v1::Failure::WORKER_FAULT)).ok());
    }
  }
  EXPECT_EQ(attempts, bound);
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::WORKER_FAULT);
}

TEST(SickWorkers, ASuspendedOneGetsOneTaskAfterItsPauseAndALongerPauseForFailing) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const Rules& rules = bench.scheduler().rules();
  for (int i = 0; i < 6; ++i) {
    (void)bench.create(bench.request("r" + std::to_string(i), "net" + std::to_string(i), "a"));
  }
  for (int i = 0; i < rules.faults_before_suspension; ++i) {
    ASSERT_TRUE(bench.report("w", bench.lease("w"), failedResult(v1::Failure::WORKER_FAULT)).ok());
  }
  EXPECT_EQ(bench.lease("w").task_id(), "");
  bench.clock.advance(rules.first_suspension_us - 1);
  EXPECT_EQ(bench.lease("w").task_id(), "");
  bench.clock.advance(2);
  const v1::Lease trial = bench.lease("w");
  ASSERT_NE(trial.task_id(), "");
  EXPECT_EQ(bench.lease("w").task_id(), "") << "one, not as many as it has slots";
  ASSERT_TRUE(bench.report("w", trial, failedResult(v1::Failure::WORKER_FAULT)).ok());
  bench.clock.advance(rules.first_suspension_us + 1);
  EXPECT_EQ(bench.lease("w").task_id(), "") << "twice as long";
  bench.clock.advance(rules.first_suspension_us + 1);
  const v1::Lease done = bench.lease("w");
  ASSERT_NE(done.task_id(), "");
  ASSERT_TRUE(bench.finish("w", done).ok());
  EXPECT_EQ(bench.worker("w").faults_in_a_row(), 0);
  EXPECT_EQ(bench.worker("w").faults(), rules.faults_before_suspension + 1);
  EXPECT_NE(bench.lease("w").task_id(), "");
  EXPECT_NE(bench.lease("w").task_id(), "");
}

TEST(SickWorkers, TheSelfChecksTroubleIsShownAndEndsWithIt) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(bench.scheduler().leaseTask("w", "the disk is full")->has_lease());
    EXPECT_EQ(bench.worker("w").state(), v1::Worker::SUSPENDED);
    EXPECT_EQ(bench.worker("w").trouble(), "the disk is full");
  }
  EXPECT_TRUE(bench.scheduler().leaseTask("w")->has_lease());
  EXPECT_EQ(bench.worker("w").trouble(), "");
  EXPECT_EQ(bench.worker("w").state(), v1::Worker::BUSY);
}

TEST(SickWorkers, AClockSetBackProlongsNoPauseAndNoLife) {
  SchedulerFixture bench;
  constexpr int64_t kHour = int64_t{3600} * 1'000'000;
  bench.clock.advance(2 * kHour);
  const Rules& rules = bench.scheduler().rules();
  bench.registerWorker("gone");
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  for (int i = 0; i < rules.faults_before_suspension; ++i) {
    bench.pass(rules.lease_us * 2);
    const v1::Lease lease = bench.lease("w");
    ASSERT_NE(lease.task_id(), "");
    ASSERT_TRUE(bench.report("w", lease, failedResult(v1::Failure::WORKER_FAULT)).ok());
  }
  ASSERT_EQ(bench.worker("w").state(), v1::Worker::SUSPENDED);
  bench.registerWorker("gone");
  bench.clock.advance(-kHour);
  bench.restart();
  EXPECT_EQ(bench.lease("w").task_id(), "") << "its pause is not over";
  bench.pass(std::max(bench.scheduler().rules().first_suspension_us, bench.scheduler().rules().lease_us * 2));
  EXPECT_EQ(bench.worker("gone").state(), v1::Worker::LOST);
  EXPECT_NE(bench.lease("w").task_id(), "");
}

TEST(SickWorkers, ARetryGoesElsewhereUnlessNobodyElseLives) {
  for (const auto reason : {v1::Failure::CRASHED, v1::Failure::OUT_OF_MEMORY, v1::Failure::WORKER_FAULT}) {
    SchedulerFixture bench;
    bench.registerWorker("first");
    bench.registerWorker("second");
    bench.registerWorker("plans only", 1, {v1::PLAN});
    (void)bench.create(bench.request("r1", "net", "a"));
    ASSERT_TRUE(bench.finish("first", bench.lease("first")).ok());
    const v1::Lease build = bench.lease("first");
    ASSERT_EQ(build.task().kind(), v1::BUILD);
    ASSERT_TRUE(bench.report("first", build, failedResult(reason)).ok());
    EXPECT_EQ(bench.lease("first").task_id(), "") << v1::Failure::Reason_Name(reason);
    EXPECT_EQ(bench.lease("plans only").task_id(), "");
    const v1::Lease again = bench.lease("second");
    ASSERT_EQ(again.task_id(), build.task_id());
    ASSERT_TRUE(bench.report("second", again, failedResult(reason)).ok());
    EXPECT_EQ(bench.lease("second").task_id(), build.task_id()) << "all that live have failed it";
  }
}

TEST(SickWorkers, ALostOneIsNotWaitedFor) {
  SchedulerFixture bench;
  bench.registerWorker("gone");
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  ASSERT_TRUE(bench.report("w", lease, failedResult(v1::Failure::CRASHED)).ok());
  EXPECT_EQ(bench.lease("w").task_id(), "");
  bench.pass(bench.scheduler().rules().lease_us * 2);
  EXPECT_EQ(bench.lease("w").task_id(), lease.task_id());
}

TEST(SickWorkers, ACrashThatAnotherWorkerDoesNotShareIsTheFirstOnesFault) {
  SchedulerFixture bench;
  bench.registerWorker("sick");
  bench.registerWorker("well");
  (void)bench.create(bench.request("r1", "net", "a"));
  ASSERT_TRUE(bench.report("sick", bench.lease("sick"), failedResult(v1::Failure::CRASHED)).ok());
  EXPECT_EQ(bench.worker("sick").faults(), 0) << "as yet it may be the model's";
  ASSERT_TRUE(bench.finish("well", bench.lease("well")).ok());
  EXPECT_EQ(bench.worker("sick").faults(), 1);
  EXPECT_THAT(bench.worker("sick").trouble(), HasSubstr("well could do it"));
}

TEST(SickWorkers, AnArtifactRunsWhereItCan) {
  SchedulerFixture bench;
  v1::HostInfo small, large;
  for (v1::HostInfo* host : {&small, &large}) host->set_triple("x86_64-unknown-linux-gnu");
  large.add_features("avx512f");
  bench.registerWorker("small", 1, {}, small);
  v1::Artifact artifact;
  artifact.set_id(std::string(64, 'a'));
  *artifact.mutable_blob() = bench.put("an artifact");
  artifact.mutable_manifest()->mutable_code()->set_triple("x86_64-unknown-linux-gnu");
  artifact.mutable_manifest()->mutable_code()->add_features("avx512f");
  ASSERT_TRUE(bench.store->transact([&](storage::Transaction& tx) { return tx.putArtifact(artifact); }).ok());
  v1::CreateJobRequest request;
  request.mutable_execute()->set_artifact_id(artifact.id());
  const v1::Job job = *bench.create(request);
  const v1::Job other = *bench.create(bench.request("r1", "net", "a"));
  EXPECT_EQ(bench.lease("small").task().kind(), v1::PLAN) << "what it can do goes past what it cannot";
  EXPECT_EQ(bench.lease("small").task_id(), "");
  bench.registerWorker("large", 2, {}, large);
  EXPECT_EQ(bench.lease("large").job_id(), job.id());
}

/// Stores a worker that was seen with these slots.
void addWorker(SchedulerFixture& bench, const std::string& id, int slots, const std::vector<v1::TaskKind>& kinds = {},
               int measuring_cores = 0, v1::Worker::State state = v1::Worker::IDLE) {
  v1::Worker worker;
  worker.set_id(id);
  worker.set_slots(slots);
  worker.mutable_kinds()->Assign(kinds.begin(), kinds.end());
  worker.set_measuring_cores(measuring_cores);
  worker.set_state(state);
  ASSERT_TRUE(bench.store->transact([&](storage::Transaction& tx) { return tx.putWorker(worker); }).ok());
}

void addTasks(SchedulerFixture& bench, v1::TaskKind kind, const std::string& target, int count, v1::Task::State state) {
  ASSERT_TRUE(bench.store
                  ->transact([&](storage::Transaction& tx) {
                    for (int i = 0; i < count; ++i) {
                      v1::Task task;
                      task.set_id(absl::StrCat(v1::TaskKind_Name(kind), target, state, "-", i));
                      task.set_state(state);
                      task.mutable_spec()->set_kind(kind);
                      task.set_target(target);
                      EXPECT_TRUE(tx.putTask(task).ok());
                    }
                    return absl::OkStatus();
                  })
                  .ok());
}

/// One text for each kind and target.
std::vector<std::string> wanted(SchedulerFixture& bench) {
  std::vector<std::string> texts;
  EXPECT_TRUE(bench.store
                  ->read([&](storage::Reader& reader) -> absl::Status {
                    const absl::StatusOr<std::vector<WantedWorkers>> all = wantedWorkers(reader);
                    for (const WantedWorkers& entry : *all) {
                      texts.push_back(absl::StrCat(v1::TaskKind_Name(entry.kind), " ", entry.target, ": ",
                                                   entry.waiting, "+", entry.running, ", slots ", entry.slots,
                                                   ", workers ", entry.workers(), " -> ", entry.workersRoundedUp()));
                    }
                    return all.status();
                  })
                  .ok());
  return texts;
}

TEST(WantedWorkers, FollowLiveTasksAndTheSlotsOfWorkersThatAcceptThem) {
  SchedulerFixture bench;
  EXPECT_THAT(wanted(bench), testing::IsEmpty());
  addTasks(bench, v1::BUILD, "", 5, v1::Task::READY);
  addTasks(bench, v1::BUILD, "", 2, v1::Task::LEASED);
  addTasks(bench, v1::BUILD, "", 9, v1::Task::DONE);
  EXPECT_THAT(wanted(bench), testing::ElementsAre("BUILD : 5+2, slots 7, workers 7 -> 7")) << "no worker is known";
  addWorker(bench, "lost", 7, {}, 0, v1::Worker::LOST);
  EXPECT_THAT(wanted(bench), testing::ElementsAre("BUILD : 5+2, slots 7, workers 1 -> 1"))
      << "without a live worker, lost workers count";
  addWorker(bench, "other", 100, {v1::PLAN});
  EXPECT_THAT(wanted(bench), testing::ElementsAre("BUILD : 5+2, slots 7, workers 1 -> 1"))
      << "a worker that accepts only other kinds does not count";
  addWorker(bench, "two", 2);
  addWorker(bench, "four", 4, {v1::BUILD, v1::MEASURE}, 1);
  addWorker(bench, "fifty", 50, {v1::BUILD});
  EXPECT_THAT(wanted(bench), testing::ElementsAre("BUILD : 5+2, slots 7, workers 1.75 -> 2"))
      << "the median of 2, 4, 50";
}

TEST(WantedWorkers, AMeasurementTakesAWorkerOfItsTarget) {
  SchedulerFixture bench;
  addWorker(bench, "measures", 4, {}, 2);
  addWorker(bench, "does not", 1);
  addTasks(bench, v1::MEASURE, "zen4", 2, v1::Task::READY);
  addTasks(bench, v1::MEASURE, "zen4", 1, v1::Task::LEASED);
  addTasks(bench, v1::MEASURE, "cascadelake", 1, v1::Task::READY);
  addTasks(bench, v1::EXECUTE, "zen4", 4, v1::Task::READY);
  EXPECT_THAT(wanted(bench), testing::ElementsAre("EXECUTE zen4: 4+0, slots 4, workers 4 -> 4",
                                                  "MEASURE cascadelake: 1+0, slots 4, workers 1 -> 1",
                                                  "MEASURE zen4: 2+1, slots 12, workers 3 -> 3"));
}

}  // namespace
}  // namespace tessera::server
