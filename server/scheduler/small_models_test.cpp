// Small models: one attempt does all, and what it brings travels with its report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/scheduler_bench.h"
#include "storage/digest.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

TEST(SmallModels, AreDoneInOneAttempt) {
  SchedulerBench bench;
  bench.work.finishes_small = true;
  bench.registerWorker("w");
  const v1::Job one = *bench.create(bench.request("r1", "one", "a"));
  EXPECT_EQ(bench.runAll("w"), 1);
  const v1::Job job = bench.job(one.id());
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().DebugString();
  EXPECT_EQ(job.compile_result().workloads(), 1);
  EXPECT_EQ(job.compile_result().workloads_reused(), 0);
  EXPECT_THAT(bench.get(job.compile_result().artifact()), HasSubstr("object of unit a"));
  std::vector<std::string> phases;
  for (const v1::PhaseTime& phase : job.phases()) phases.push_back(phase.phase());
  EXPECT_THAT(phases, testing::ElementsAre("import", "plan", "build", "assemble"));
  // Its object serves a model that is not small.
  const v1::Job two = *bench.create(bench.request("r2", "two", "a b"));
  EXPECT_EQ(bench.runAll("w"), 3) << "plan, the other unit, assemble";
  EXPECT_EQ(bench.job(two.id()).compile_result().workloads_reused(), 1);
  EXPECT_TRUE(bench.create(bench.request("r3", "one", "a"))->cached());
}

TEST(SmallModels, AfterACrashEachStepIsAnAttemptOfItsOwn) {
  SchedulerBench bench;
  bench.work.finishes_small = true;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(bench.request("r1", "one", "a"));
  ASSERT_TRUE(bench.report("w", bench.lease("w"), failedResult(v1::Failure::CRASHED)).ok());
  EXPECT_EQ(bench.runAll("w"), 3);
  EXPECT_EQ(bench.job(job.id()).state(), v1::Job::SUCCEEDED);
}

TEST(SmallModels, AnArtifactWithoutAllObjectsIsRefused) {
  SchedulerBench bench;
  bench.work.finishes_small = true;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(bench.request("r1", "one", "a"));
  const v1::Lease lease = bench.lease("w");
  v1::TaskResult result = bench.work.run(lease.task());
  result.mutable_plan()->mutable_units(0)->clear_object_file();
  ASSERT_TRUE(bench.report("w", lease, result).ok());
  EXPECT_EQ(bench.job(job.id()).failure().reason(), v1::Failure::INTERNAL);
}

TEST(SmallModels, SmallInputsComeWithTheLeaseAndSmallOutputsWithTheReport) {
  SchedulerBench bench;
  bench.registerWorker("w");
  const v1::Job job = *bench.create(bench.request("r1", "net", "a"));
  const v1::Lease lease = bench.lease("w");
  ASSERT_EQ(lease.inputs_size(), 1);
  EXPECT_EQ(lease.inputs(0).data(), "model net: a");
  v1::TaskResult result = bench.work.run(lease.task());
  const std::string content = "plan that was not uploaded";
  v1::OutputFile* file = result.mutable_files(0);
  file->set_data(content);
  EXPECT_TRUE(absl::IsInvalidArgument(bench.report("w", lease, result))) << "not what its digest says";
  file->mutable_digest()->set_sha256(storage::sha256Hex(content));
  file->mutable_digest()->set_size_bytes(static_cast<int64_t>(content.size()));
  ASSERT_TRUE(bench.report("w", lease, result).ok());
  EXPECT_EQ(bench.get(file->digest()), content);
  EXPECT_EQ(bench.task(lease.task_id()).result().files(0).data(), "") << "kept once, as a blob";
  bench.runAll("w");
  EXPECT_THAT(bench.get(bench.job(job.id()).compile_result().artifact()), HasSubstr(content));
}

}  // namespace
}  // namespace tessera::server
