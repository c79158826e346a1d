#include "server/queue/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <tuple>

#include "proto/messages/failure.h"
#include "server/retention/losses.h"
#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> phasesOf(const v1::Job& job) {
  std::vector<std::string> names;
  for (const v1::PhaseTime& phase : job.phases()) {
    names.push_back(phase.phase());
  }
  return names;
}

/// The states of a job, according to its events.
std::vector<v1::Job::State> statesOf(const std::vector<v1::JobEvent>& events) {
  std::vector<v1::Job::State> states;
  for (const v1::JobEvent& event : events) {
    if (event.has_state()) {
      states.push_back(event.state().state());
    }
  }
  return states;
}

TEST(Scheduler, CompilesThroughPlanBuildAssemble) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job created = *bench.create(bench.request("r1", "net", "a b a"));
  EXPECT_EQ(created.state(), v1::Job::QUEUED);
  EXPECT_EQ(bench.runAll("w"), 1 + 2 + 1) << "plan, two distinct units, assemble";

  const v1::Job job = bench.job(created.id());
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().DebugString();
  EXPECT_EQ(job.compile_result().workloads(), 2);
  EXPECT_EQ(job.compile_result().workloads_reused(), 0);
  EXPECT_THAT(phasesOf(job), ElementsAre("import", "plan", "build", "assemble"));
  EXPECT_THAT(bench.get(job.compile_result().artifact()), testing::HasSubstr("object of unit a\nobject of unit b"));
  const auto events = bench.events(job.id());
  EXPECT_THAT(statesOf(events), ElementsAre(v1::Job::QUEUED, v1::Job::RUNNING, v1::Job::SUCCEEDED));
  EXPECT_TRUE(events.back().has_state()) << "the terminal event is the last one";
}

TEST(Scheduler, ALeaseIsItsHoldersAlone) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  bench.registerWorker("thief");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  v1::Lease guessed = lease;
  for (const std::string& secret : {std::string(), std::string(16, '\0'), lease.secret() + "x"}) {
    guessed.set_secret(secret);
    EXPECT_EQ(bench.beat("w", guessed), v1::HeartbeatResponse::ABORT_LOST);
    EXPECT_TRUE(absl::IsAborted(bench.finish("w", guessed))) << "everything right but the secret";
  }
  EXPECT_TRUE(absl::IsAborted(bench.finish("thief", lease))) << "the right secret under another name";
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING);
  EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::GO_ON) << "the holder goes on undisturbed";
  ASSERT_TRUE(bench.finish("w", lease).ok());
  EXPECT_NE(bench.lease("w").secret(), lease.secret());
}

TEST(Scheduler, AResultIsOfTheSizeItSays) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  v1::TaskResult result = bench.work.run(lease.task());
  auto* digest = result.mutable_files(0)->mutable_digest();
  digest->set_size_bytes(digest->size_bytes() + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(bench.report("w", lease, result)));
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING);
  EXPECT_TRUE(bench.finish("w", lease).ok());
}

TEST(Scheduler, AnswersFromTheCacheAndSkipsItWhenTold) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job first = *bench.create(bench.request("r1", "net", "a b"));
  bench.runAll("w");
  const v1::Job hit = *bench.create(bench.request("r2", "net", "a b"));
  EXPECT_EQ(hit.state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(hit.cached());
  EXPECT_NE(hit.id(), first.id());
  EXPECT_EQ(hit.compile_result().artifact_id(), bench.job(first.id()).compile_result().artifact_id());
  EXPECT_EQ(hit.compile_result().workloads(), 2);
  EXPECT_THAT(statesOf(bench.events(hit.id())), ElementsAre(v1::Job::SUCCEEDED));

  v1::CreateJobRequest again = bench.request("r3", "net", "a b");
  again.set_skip_cache(true);
  const v1::Job cold = *bench.create(again);
  EXPECT_EQ(cold.state(), v1::Job::QUEUED);
  EXPECT_EQ(bench.runAll("w"), 4) << "objects are built anew too";
}

TEST(Scheduler, RebuildsWhenTheCachedArtifactIsGone) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job first = *bench.create(bench.request("r1", "net", "a"));
  bench.runAll("w");
  const std::string artifact = bench.job(first.id()).compile_result().artifact_id();
  ASSERT_TRUE(bench.blobs->remove(artifact).ok());
  ASSERT_FALSE(bench.blobs->contains(artifact));
  EXPECT_TRUE(bench.create(bench.request("r2", "net", "a"))->cached()) << "its row says that it is there";
  ASSERT_TRUE(noteLoss(*bench.store, *bench.blobs, artifact).ok());
  const v1::Job second = *bench.create(bench.request("r3", "net", "a"));
  EXPECT_FALSE(second.cached());
  EXPECT_EQ(bench.runAll("w"), 2) << "plan and assemble; the object is there";
  EXPECT_EQ(bench.job(second.id()).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(bench.job(second.id()).compile_result().workloads_reused(), 1);
}

TEST(Scheduler, JoinsEqualWorkInFlight) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job first = *bench.create(bench.request("r1", "net", "a"));
  const v1::Lease plan = bench.lease("w");
  const v1::Job joined = *bench.create(bench.request("r2", "net", "a"));
  EXPECT_EQ(joined.joined_job_id(), first.id());
  EXPECT_EQ(joined.state(), v1::Job::RUNNING) << "the work it shares runs already";
  ASSERT_TRUE(bench.finish("w", plan).ok());
  EXPECT_EQ(bench.runAll("w"), 2);
  EXPECT_EQ(bench.job(first.id()).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(bench.job(joined.id()).state(), v1::Job::SUCCEEDED);
  EXPECT_FALSE(bench.job(joined.id()).cached());
}

TEST(Scheduler, SharesBuildsBetweenDifferentModels) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job one = *bench.create(bench.request("r1", "one", "shared x"));
  const v1::Job two = *bench.create(bench.request("r2", "two", "shared y"));
  EXPECT_EQ(bench.runAll("w"), 2 + 3 + 2) << "two plans, three distinct units, two assemblies";
  const v1::Job three = *bench.create(bench.request("r3", "three", "x y"));
  EXPECT_EQ(bench.runAll("w"), 2);
  EXPECT_EQ(bench.job(three.id()).compile_result().workloads_reused(), 2);
  EXPECT_EQ(bench.job(one.id()).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(bench.job(two.id()).state(), v1::Job::SUCCEEDED);
}

TEST(Scheduler, RequestIdMakesCreationIdempotent) {
  SchedulerFixture bench;
  const v1::CreateJobRequest request = bench.request("r1", "net", "a");
  const v1::Job first = *bench.create(request);
  EXPECT_EQ(bench.create(request)->id(), first.id());
  EXPECT_TRUE(absl::IsAlreadyExists(bench.create(bench.request("r1", "other", "a")).status()));
  v1::CreateJobRequest dry = bench.request("r9", "dry", "a");
  dry.set_validate_only(true);
  EXPECT_THAT(bench.create(dry)->id(), IsEmpty());
  dry.set_validate_only(false);
  EXPECT_EQ(bench.create(dry)->state(), v1::Job::QUEUED) << "validation stored nothing under r9";
}

TEST(Scheduler, NamesTheMissingBlob) {
  SchedulerFixture bench;
  v1::CreateJobRequest request = bench.request("r1", "net", "a");
  request.mutable_compile()->mutable_model()->set_sha256(std::string(64, '0'));
  const auto job = bench.create(request);
  const v1::Failure failure = failureOf(job.status());
  EXPECT_EQ(failure.reason(), v1::Failure::MISSING_BLOB);
  EXPECT_EQ(failure.attribute(), "compile.model");
}

TEST(Scheduler, RejectsTheResultOfALostLease) {
  SchedulerFixture bench;
  bench.registerWorker("slow");
  bench.registerWorker("fast");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lost = bench.lease("slow");
  EXPECT_EQ(bench.beat("slow", lost), v1::HeartbeatResponse::GO_ON);
  bench.clock.advance(bench.scheduler().rules().lease_us + 1);
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  EXPECT_TRUE(absl::IsAborted(bench.finish("slow", lost))) << "even before somebody else has it";
  const v1::Lease taken = bench.lease("fast");
  EXPECT_EQ(taken.task_id(), lost.task_id());
  EXPECT_GT(taken.fencing_token(), lost.fencing_token());
  EXPECT_EQ(bench.beat("slow", lost), v1::HeartbeatResponse::ABORT_LOST);
  EXPECT_TRUE(absl::IsAborted(bench.finish("slow", lost)));
  const v1::TaskResult result = bench.work.run(taken.task());
  EXPECT_TRUE(bench.report("fast", taken, result).ok());
  EXPECT_TRUE(bench.report("fast", taken, result).ok()) << "a repeated report";
  EXPECT_EQ(bench.runAll("fast"), 2);
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED);
}

TEST(Scheduler, HeartbeatsKeepALease) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  for (int i = 0; i < 50; ++i) {
    bench.clock.advance(bench.scheduler().rules().lease_us / 4);
    EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::GO_ON);
    ASSERT_TRUE(bench.scheduler().sweep().ok());
  }
  EXPECT_TRUE(bench.finish("w", lease).ok());
}

TEST(Scheduler, QuarantinesTheThirdCrashWithAReproducer) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  v1::TaskSpec spec;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::REASON_UNSPECIFIED);
    const v1::Lease lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty());
    spec = lease.task();
    v1::TaskResult crash = failedResult(i == 1 ? v1::Failure::OUT_OF_MEMORY : v1::Failure::CRASHED);
    crash.mutable_failure()->set_signal(11);
    ASSERT_TRUE(bench.report("w", lease, crash).ok());
  }
  const v1::Job failed = bench.job(job.id());
  EXPECT_EQ(failed.state(), v1::Job::FAILED);
  EXPECT_EQ(failed.failure().reason(), v1::Failure::QUARANTINED);
  EXPECT_EQ(failed.failure().signal(), 11);
  v1::TaskSpec reproducer;
  ASSERT_TRUE(reproducer.ParseFromString(bench.get(failed.failure().reproducer())));
  EXPECT_EQ(reproducer.SerializeAsString(), spec.SerializeAsString());
  EXPECT_EQ(bench.runAll("w"), 0);
}

// A task that crashes twice in a row by a signal that programs raise themselves is not retried; a killed one is.
TEST(Scheduler, QuarantinesACrashThatRepeatsItself) {
  for (const auto& [first, second, attempts] :
       {std::tuple(SIGSEGV, SIGSEGV, 2), {SIGABRT, SIGABRT, 2}, {SIGSEGV, SIGABRT, 3}, {SIGKILL, SIGKILL, 3}}) {
    SchedulerFixture bench;
    bench.registerWorker("w");
    const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
    int tried = 0;
    while (bench.job(job.id()).state() != v1::Job::FAILED) {
      const v1::Lease lease = bench.lease("w");
      ASSERT_FALSE(lease.task_id().empty());
      v1::TaskResult crash = failedResult(v1::Failure::CRASHED);
      crash.mutable_failure()->set_signal(tried == 1 ? second : first);
      ASSERT_TRUE(bench.report("w", lease, crash).ok());
      ++tried;
    }
    EXPECT_EQ(tried, attempts) << "signals " << first << " and " << second;
    EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::QUARANTINED);
  }
}

TEST(Scheduler, KilledWorkersDoNotQuarantineATask) {
  SchedulerFixture bench;
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  v1::Lease lease;
  for (int i = 0; i < bench.scheduler().rules().lease_losses_before_failure; ++i) {
    bench.registerWorker("w", 100 + i);  // a new process under the old name: the old one's task is lost
    lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty()) << "at once, before the lease expires";
  }
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING);
  ASSERT_TRUE(bench.scheduler().workerGone("w").ok());
  bench.registerWorker("other");
  EXPECT_EQ(bench.task(lease.task_id()).crashes(), 0);
  EXPECT_EQ(bench.lease("other").task_id(), "") << "the last loss a task is granted is spent";
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::LEASE_LOST);
}

// The first task that has lost its worker too often fails the job, which cancels the other task of that worker.
TEST(Scheduler, TasksOfOneJobAreLostWithTheirWorkerTogether) {
  SchedulerFixture bench;
  bench.registerWorker("w", 1);
  const v1::Job job = *bench.create(bench.request("r1", "net", "a b"));
  const v1::Lease plan = bench.lease("w");
  ASSERT_TRUE(bench.report("w", plan, bench.work.run(plan.task())).ok());
  for (int i = 0; i < bench.scheduler().rules().lease_losses_before_failure; ++i) {
    ASSERT_EQ(bench.lease("w").task().kind(), v1::BUILD);
    ASSERT_EQ(bench.lease("w").task().kind(), v1::BUILD);
    bench.registerWorker("w", 100 + i);  // registration succeeds nevertheless
  }
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::LEASE_LOST);
  EXPECT_EQ(bench.lease("w").task_id(), "");
}

TEST(Scheduler, DeterministicFailuresEndTheJobAtOnce) {
  for (const auto reason : {v1::Failure::INVALID_MODEL, v1::Failure::UNSUPPORTED_OPERATOR,
                            v1::Failure::RUN_DEADLINE_EXCEEDED, v1::Failure::INTERNAL}) {
    SchedulerFixture bench;
    bench.registerWorker("w");
    const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
    v1::TaskResult result = failedResult(reason);
    result.mutable_failure()->set_node("conv1");
    ASSERT_TRUE(bench.report("w", bench.lease("w"), result).ok());
    const v1::Job failed = bench.job(job.id());
    EXPECT_EQ(failed.state(), v1::Job::FAILED);
    EXPECT_EQ(failed.failure().reason(), reason);
    EXPECT_EQ(failed.failure().node(), "conv1");
    EXPECT_EQ(failed.failure().has_reproducer(),
              reason != v1::Failure::INVALID_MODEL && reason != v1::Failure::UNSUPPORTED_OPERATOR);
    EXPECT_EQ(bench.runAll("w"), 0);
  }
}

TEST(Scheduler, AFailedSharedBuildFailsAllThatWaitForIt) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job one = *bench.create(bench.request("r1", "one", "bad x"));
  const v1::Job two = *bench.create(bench.request("r2", "two", "bad y"));
  const v1::Job fine = *bench.create(bench.request("r3", "fine", "y"));
  while (true) {
    const v1::Lease lease = bench.lease("w");
    if (lease.task_id().empty()) {
      break;
    }
    const bool bad = lease.task().kind() == v1::BUILD && bench.get(lease.task().build().unit()) == "unit bad";
    ASSERT_TRUE(
        bench.report("w", lease, bad ? failedResult(v1::Failure::INVALID_MODEL) : bench.work.run(lease.task())).ok());
  }
  EXPECT_EQ(bench.job(one.id()).failure().reason(), v1::Failure::INVALID_MODEL);
  EXPECT_EQ(bench.job(two.id()).failure().reason(), v1::Failure::INVALID_MODEL);
  EXPECT_EQ(bench.job(fine.id()).state(), v1::Job::SUCCEEDED) << "a unit it shares with a failed one still counts";
}

TEST(Scheduler, CancelEndsTheWorkWithItsLastJob) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job one = *bench.create(bench.request("r1", "net", "a"));
  const v1::Job two = *bench.create(bench.request("r2", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  EXPECT_EQ(bench.scheduler().cancelJob(one.id())->state(), v1::Job::CANCELLED);
  EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::GO_ON) << "the other job still wants it";
  EXPECT_EQ(bench.scheduler().cancelJob(two.id())->state(), v1::Job::CANCELLED);
  EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::ABORT_CANCELLED);
  EXPECT_TRUE(absl::IsAborted(bench.finish("w", lease)));
  EXPECT_EQ(bench.scheduler().cancelJob(two.id())->state(), v1::Job::CANCELLED) << "idempotent";
  EXPECT_EQ(statesOf(bench.events(two.id())).size(), 3);
  EXPECT_EQ(bench.runAll("w"), 0);
  EXPECT_EQ(bench.create(bench.request("r3", "net", "a"))->joined_job_id(), "") << "nothing left to join";
}

TEST(Scheduler, QueueDeadlineIsAboutWaitingOnly) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  v1::CreateJobRequest hurried = bench.request("r1", "late", "a");
  hurried.set_queue_timeout_us(1'000'000);
  const v1::Job late = *bench.create(hurried);
  bench.clock.advance(2'000'000);
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  EXPECT_EQ(bench.job(late.id()).failure().reason(), v1::Failure::QUEUE_DEADLINE_EXCEEDED);
  EXPECT_EQ(bench.lease("w").task_id(), "") << "nobody wants the task any more";

  hurried = bench.request("r2", "started", "a");
  hurried.set_queue_timeout_us(1'000'000);
  const v1::Job started = *bench.create(hurried);
  const v1::Lease lease = bench.lease("w");
  bench.clock.advance(2'000'000);
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  ASSERT_TRUE(bench.finish("w", lease).ok());
  bench.runAll("w");
  EXPECT_EQ(bench.job(started.id()).state(), v1::Job::SUCCEEDED);
}

TEST(Scheduler, EndsAnAttemptThatItsWorkerLetsRunForever) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  v1::CreateJobRequest request = bench.request("r1", "net", "a");
  request.set_run_timeout_us(1'000'000);
  const v1::Job job = *bench.create(request);
  const v1::Lease lease = bench.lease("w");
  EXPECT_EQ(lease.task().run_timeout_us(), 1'000'000);
  for (int i = 0; i < 20; ++i) {
    bench.clock.advance(1'000'000);
    (void)bench.beat("w", lease, (i + 1) * 1'000'000);
    ASSERT_TRUE(bench.scheduler().sweep().ok());
  }
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::RUN_DEADLINE_EXCEEDED);
  EXPECT_EQ(bench.beat("w", lease), v1::HeartbeatResponse::ABORT_CANCELLED);
}

TEST(Scheduler, WantsOutputsUploadedAndWellFormed) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  v1::TaskResult result = bench.work.run(lease.task());
  v1::TaskResult absent = result;
  absent.mutable_files(0)->mutable_digest()->set_sha256(std::string(64, 'f'));
  EXPECT_TRUE(absl::IsFailedPrecondition(bench.report("w", lease, absent)));
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::RUNNING) << "refused, not failed: the worker may upload it yet";
  result.mutable_plan()->set_plan_file("no-such-file");
  EXPECT_TRUE(bench.report("w", lease, result).ok());
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::INTERNAL);
}

TEST(Scheduler, RestartRequeuesLocalLeasesAndKeepsRemoteOnes) {
  SchedulerFixture bench;
  bench.registerWorker("local-0");
  bench.registerWorker("remote");
  (void)bench.create(bench.request("r1", "one", "a"));
  (void)bench.create(bench.request("r2", "two", "b"));
  const v1::Lease local = bench.lease("local-0");
  const v1::Lease remote = bench.lease("remote");
  bench.clock.advance(bench.scheduler().rules().lease_us * 2);  // the server was down for longer than a lease
  bench.restart();
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  EXPECT_EQ(bench.task(local.task_id()).state(), v1::Task::READY);
  EXPECT_EQ(bench.task(local.task_id()).lease_losses(), 0);
  EXPECT_EQ(bench.beat("remote", remote), v1::HeartbeatResponse::GO_ON);
  EXPECT_TRUE(bench.finish("remote", remote).ok());
  EXPECT_TRUE(absl::IsAborted(bench.finish("local-0", local)));
}

TEST(Scheduler, RestartRequeuesLeasesOfItsOwnLocalWorkersAlone) {
  SchedulerFixture bench;
  const std::vector<std::string> workers = {"local-0", "local-a-0", "local-b-0", "local-a-b"};
  std::vector<v1::Lease> leases;
  for (const std::string& worker : workers) {
    bench.registerWorker(worker);
    (void)bench.create(bench.request("r" + worker, worker, worker));
    leases.push_back(bench.lease(worker));
  }
  const auto ready = [&] {
    std::vector<std::string> names;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (bench.task(leases[i].task_id()).state() == v1::Task::READY) names.push_back(workers[i]);
    }
    return names;
  };
  bench.restart("local-a-");
  EXPECT_THAT(ready(), testing::ElementsAre("local-a-0"));
  bench.restart("local-");
  EXPECT_THAT(ready(), testing::ElementsAre("local-0", "local-a-0"));
}

TEST(Scheduler, WaitersOfAnotherServerOnTheStoreAreWoken) {
  SchedulerFixture bench;
  const Workflows workflows{};
  Scheduler other(*bench.store, *bench.blobs, bench.clock, bench.ids, workflows, bench.scheduler().rules());
  int woken = 0;
  (void)other.notifier().onTasks(other.notifier().taskGeneration(), [&] { ++woken; });
  const auto job = bench.create(bench.request("r1", "net", "a"));
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(woken, 1);
  int changed = 0;
  (void)other.notifier().onJob(job->id(), [&] { ++changed; });
  bench.registerWorker("w");
  ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  EXPECT_GT(changed, 0);
}

TEST(Scheduler, AServerThatStartsBesideOthersReturnsOnlyItsOwnWorkersTasks) {
  SchedulerFixture bench;
  const Workflows workflows{};
  (void)bench.create(bench.request("r1", "net", "a"));
  (void)bench.create(bench.request("r2", "other net", "b"));
  bench.registerWorker("remote");
  bench.registerWorker("local-two-0");
  const v1::Lease remote = bench.lease("remote"), local = bench.lease("local-two-0");
  bench.clock.advance(1'000'000);
  Scheduler two(*bench.store, *bench.blobs, bench.clock, bench.ids, workflows, bench.scheduler().rules());
  const int64_t expiry_us = bench.task(remote.task_id()).lease_expiry_us();
  ASSERT_TRUE(two.recover("local-two-", /*others_serve=*/true).ok());
  EXPECT_EQ(bench.task(remote.task_id()).lease_expiry_us(), expiry_us);
  EXPECT_EQ(bench.task(local.task_id()).state(), v1::Task::READY);
  ASSERT_TRUE(two.recover("local-two-").ok());
  EXPECT_GT(bench.task(remote.task_id()).lease_expiry_us(), expiry_us) << "alone: the worker could reach no server";
}

TEST(Scheduler, AServerThatTakesOverTheSweepEndsLeasesAtOnce) {
  SchedulerFixture bench;
  const Workflows workflows{};
  const int64_t lease_us = bench.scheduler().rules().lease_us;
  for (const bool watched : {true, false}) {
    Scheduler two(*bench.store, *bench.blobs, bench.clock, bench.ids, workflows, bench.scheduler().rules());
    ASSERT_TRUE(two.sweep().ok());
    (void)bench.create(bench.request(watched ? "r1" : "r2", watched ? "net" : "other net", "a"));
    bench.registerWorker("w", watched ? 1 : 2);
    const v1::Lease lease = bench.lease("w");
    for (int64_t us = 0; us <= lease_us; us += lease_us / 4) {
      bench.clock.advance(lease_us / 4);
      if (watched) {
        two.skipSweep();
      }
    }
    ASSERT_TRUE(two.sweep().ok());
    EXPECT_EQ(bench.task(lease.task_id()).state(), watched ? v1::Task::READY : v1::Task::LEASED)
        << "a server that stood still gives leases their time again";
    EXPECT_TRUE(two.cancelJob(lease.job_id()).ok());
  }
}

TEST(Scheduler, AWorkerOfAServerOfAnotherReleaseRegistersAgain) {
  SchedulerFixture bench;
  const Workflows workflows{};
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  Rules newer = bench.scheduler().rules();
  newer.compiler_version = "newer";
  Scheduler other(*bench.store, *bench.blobs, bench.clock, bench.ids, workflows, newer);
  EXPECT_TRUE(absl::IsFailedPrecondition(other.leaseTask("w").status()));
  EXPECT_NE(bench.lease("w").task_id(), "");
}

TEST(Scheduler, DrainingGivesNothingAway) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "net", "a"));
  ASSERT_TRUE(bench.scheduler().drainWorker("w", true).ok());
  EXPECT_TRUE(bench.scheduler().leaseTask("w")->draining());
  EXPECT_EQ(bench.lease("w").task_id(), "");
  EXPECT_EQ(bench.scheduler().drainWorker("w", false)->state(), v1::Worker::IDLE);
  Notifier& notifier = bench.scheduler().notifier();
  bool woken = false;  // a lease call that waits
  notifier.onTasks(notifier.taskGeneration(), [&] { woken = true; });
  bench.scheduler().setDraining(true);
  EXPECT_TRUE(woken);
  EXPECT_EQ(bench.lease("w").task_id(), "");
  bench.scheduler().setDraining(false);
  EXPECT_NE(bench.lease("w").task_id(), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(bench.scheduler().leaseTask("stranger").status()));
}

TEST(Scheduler, RefusesWorkersWithAnotherCompiler) {
  SchedulerFixture bench;
  v1::RegisterWorkerRequest request;
  request.set_worker_id("w");
  request.set_compiler_version("another");
  EXPECT_TRUE(absl::IsFailedPrecondition(bench.scheduler().registerWorker(request).status()));
}

TEST(Scheduler, PriorityGoesFirstAndAJoinRaisesIt) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  (void)bench.create(bench.request("r1", "low", "a"));
  v1::CreateJobRequest urgent = bench.request("r2", "high", "b");
  urgent.set_priority(5);
  const v1::Job high = *bench.create(urgent);
  urgent = bench.request("r3", "low", "a");
  urgent.set_priority(9);
  const v1::Job raised = *bench.create(urgent);
  EXPECT_EQ(bench.lease("w").task().plan().spec().name(), "low");
  EXPECT_EQ(bench.lease("w").task().plan().spec().name(), "high");
  EXPECT_NE(raised.joined_job_id(), "");
}

TEST(Scheduler, ExplainsWhichComponentDiffers) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  v1::CreateJobRequest request = bench.request("r1", "net", "a");
  const v1::Job job = *bench.create(request);
  bench.runAll("w");
  v1::Target target;
  target.set_name("test-target");
  auto same = *bench.explain(request.compile(), target);
  EXPECT_TRUE(same.hit());
  EXPECT_EQ(same.nearest_job_id(), job.id());
  EXPECT_THAT(same.differing(), IsEmpty());
  request.mutable_compile()->mutable_options()->set_opt_level(1);
  auto other = *bench.explain(request.compile(), target);
  EXPECT_FALSE(other.hit());
  EXPECT_EQ(other.nearest_job_id(), job.id());
  EXPECT_THAT(other.differing(), ElementsAre("options"));
}

TEST(Scheduler, ProfilesFileOneRecordPerKernel) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const v1::Job compiled = *bench.create(bench.request("r1", "net", "a"));
  bench.runAll("w");
  v1::CreateJobRequest request;
  request.mutable_profile()->set_artifact_id(bench.job(compiled.id()).compile_result().artifact_id());
  request.mutable_profile()->set_seed(7);
  const v1::Job job = *bench.create(request);
  EXPECT_NE(job.request_id(), "") << "the server makes one up";
  EXPECT_EQ(bench.runAll("w"), 1);
  EXPECT_EQ(bench.job(job.id()).profile_result().kernels_size(), 2);
  ASSERT_TRUE(bench.store
                  ->read([&](storage::Reader& reader) {
                    auto page = reader.listRecords({});
                    EXPECT_EQ(page->items.size(), 2);
                    for (const v1::TuningRecord& record : page->items) {
                      EXPECT_EQ(record.mode(), "profile");
                      EXPECT_EQ(record.seed(), 7);
                      EXPECT_EQ(record.job_id(), job.id());
                      EXPECT_GT(record.median_ms(), 0);
                      EXPECT_EQ(record.times_ms_size(), 3);
                      EXPECT_NE(record.workload_hash(), "");
                    }
                    return absl::OkStatus();
                  })
                  .ok());
}

}  // namespace
}  // namespace tessera::server
