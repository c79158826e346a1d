// Small models: one attempt plans, builds and assembles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

struct SmallModels : testing::Test {
  SmallModels() {
    bench.work.finishes_small = true;
    bench.registerWorker("w");
  }
  SchedulerFixture bench;
};

TEST_F(SmallModels, AreDoneInOneAttempt) {
  const v1::Job one = *bench.create(bench.request("r1", "one", "a"));
  EXPECT_EQ(bench.runAll("w"), 1);
  const v1::Job job = bench.job(one.id());
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().DebugString();
  EXPECT_EQ(job.compile_result().workloads(), 1);
  EXPECT_EQ(job.compile_result().workloads_reused(), 0);
  EXPECT_THAT(bench.get(job.compile_result().artifact()), HasSubstr("object of unit a"));
  std::vector<std::string> phases, told;
  for (const v1::PhaseTime& phase : job.phases()) phases.push_back(phase.phase());
  EXPECT_THAT(phases, testing::ElementsAre("import", "plan", "build", "assemble"));
  EXPECT_EQ(job.phases(2).wall_ms(), 3);
  EXPECT_EQ(job.phases(3).wall_ms(), 4);
  for (const v1::JobEvent& event : bench.events(one.id())) {
    if (event.has_progress()) told.push_back(event.progress().phase());
  }
  EXPECT_THAT(told, testing::ElementsAre("import", "build", "assemble")) << "as of models that are not small";
  // Its object is reused by a model that is not small.
  const v1::Job two = *bench.create(bench.request("r2", "two", "a b"));
  EXPECT_EQ(bench.runAll("w"), 3) << "plan, the other unit, assemble";
  EXPECT_EQ(bench.job(two.id()).compile_result().workloads_reused(), 1);
  EXPECT_TRUE(bench.create(bench.request("r3", "one", "a"))->cached());
}

TEST_F(SmallModels, AnObjectThatIsThereStaysAndCountsAsReused) {
  (void)bench.create(bench.request("r1", "one", "a"));
  ASSERT_EQ(bench.runAll("w"), 1);
  const v1::Job other = *bench.create(bench.request("r2", "other", "a"));
  ASSERT_EQ(bench.runAll("w"), 1);
  EXPECT_EQ(bench.job(other.id()).compile_result().workloads_reused(), 1);
  v1::CreateJobRequest anew = bench.request("r3", "one", "a");
  anew.set_skip_cache(true);
  const v1::Job again = *bench.create(anew);
  ASSERT_EQ(bench.runAll("w"), 1);
  EXPECT_EQ(bench.job(again.id()).compile_result().workloads_reused(), 0);
}

TEST_F(SmallModels, AnAttemptMayUseWhatEarlierOnesOfItsProjectMadeUnlessTheCacheIsToBeSkipped) {
  v1::CreateJobRequest request = bench.request("r1", "one", "a");
  (void)*bench.create(request);
  const v1::Lease first = bench.lease("w");
  EXPECT_EQ(first.step_cache(), "default");
  ASSERT_TRUE(bench.report("w", first, failedResult(v1::Failure::CRASHED)).ok());
  const v1::Lease second = bench.lease("w");
  EXPECT_EQ(second.step_cache(), "") << "after a failure all is done anew";
  ASSERT_TRUE(bench.finish("w", second).ok());
  bench.runAll("w");
  request.set_request_id("r2");
  request.set_skip_cache(true);
  (void)*bench.create(request);
  EXPECT_EQ(bench.lease("w").step_cache(), "");
}

TEST_F(SmallModels, AnObjectThatItsWorkerKnewCountsAsReused) {
  const v1::Job job = *bench.create(bench.request("r1", "one", "a"));
  const v1::Lease lease = bench.lease("w");
  v1::TaskResult result = bench.work.run(lease.task());
  result.mutable_plan()->mutable_units(0)->set_object_known(true);
  ASSERT_TRUE(bench.report("w", lease, result).ok());
  EXPECT_EQ(bench.job(job.id()).compile_result().workloads_reused(), 1);
  const v1::Job other = *bench.create(bench.request("r2", "two", "a b"));
  bench.runAll("w");
  EXPECT_EQ(bench.job(other.id()).compile_result().workloads_reused(), 1) << "it is filed all the same";
}

TEST_F(SmallModels, AfterACrashEachStepIsAnAttemptOfItsOwn) {
  const v1::Job job = *bench.create(bench.request("r1", "one", "a"));
  ASSERT_TRUE(bench.report("w", bench.lease("w"), failedResult(v1::Failure::CRASHED)).ok());
  EXPECT_EQ(bench.runAll("w"), 3);
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED);
}

TEST_F(SmallModels, AWorkerThatOnlyPlansOnlyPlans) {
  const v1::Job job = *bench.create(bench.request("r1", "one", "a"));
  bench.registerWorker("planner", 2, {v1::PLAN, v1::BUILD});
  ASSERT_TRUE(bench.finish("planner", bench.lease("planner")).ok());
  EXPECT_EQ(bench.runAll("w"), 2);
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED);
}

TEST_F(SmallModels, AnArtifactWithoutAllObjectsIsRefused) {
  const v1::Job job = *bench.create(bench.request("r1", "one", "a"));
  const v1::Lease lease = bench.lease("w");
  v1::TaskResult result = bench.work.run(lease.task());
  result.mutable_plan()->mutable_units(0)->clear_object_file();
  ASSERT_TRUE(bench.report("w", lease, result).ok());
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::INTERNAL);
}

TEST_F(SmallModels, ATuneJobGoesOnBehindItsDefault) {
  v1::CreateJobRequest request = bench.request("r1", "one", "a");
  v1::TuneSpec tune;
  tune.mutable_compile()->Swap(request.mutable_compile());
  tune.set_trials(2);
  *request.mutable_tune() = tune;
  const auto job = bench.create(request);
  ASSERT_TRUE(job.ok()) << job.status();
  bench.runAll("w");
  EXPECT_EQ(bench.job(job->id()).state(), v1::Job::SUCCEEDED) << bench.job(job->id()).failure().DebugString();
  EXPECT_EQ(bench.job(job->id()).tune_result().workloads_size(), 1);
}

}  // namespace
}  // namespace tessera::server
