// Built objects shared between projects, after two workers have built identical bytes.
#include "server/workflows/sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

Rules rulesThatShare(bool share = true) {
  Rules rules = SchedulerFixture::defaultRules();
  rules.share_reproduced = share;
  return rules;
}

/// Compiles the units for a project; this worker runs all tasks.
v1::Job compiled(SchedulerFixture& bench, const std::string& project, const std::string& units,
                 const std::string& worker) {
  const v1::CreateJobRequest request = bench.request("r of " + project, "net", units);
  EXPECT_TRUE(
      bench.store->transact([&](storage::Transaction& tx) { return tx.putBlob(request.compile().model(), project); })
          .ok());
  v1::Target target;
  target.set_name("test-target");
  const auto job = bench.scheduler().createJob(request, target, project);
  EXPECT_TRUE(job.ok()) << job.status();
  bench.runAll(worker);
  const v1::Job done = bench.job(job->id());
  EXPECT_EQ(done.state(), v1::Job::SUCCEEDED) << done.failure().DebugString();
  return done;
}

/// Registers w1, w2 and w3, whose results of BUILD tasks can be changed.
void registerAll(SchedulerFixture& bench) {
  for (const char* worker : {"w1", "w2", "w3"}) bench.registerWorker(worker);
}

TEST(Sharing, BeginsWithTheSecondWorkerThatMadeTheSame) {
  SchedulerFixture bench(rulesThatShare());
  registerAll(bench);
  EXPECT_EQ(compiled(bench, "a", "x y", "w1").compile_result().workloads_reused(), 0);
  EXPECT_EQ(compiled(bench, "b", "x y", "w1").compile_result().workloads_reused(), 0) << "the same worker again";
  EXPECT_EQ(compiled(bench, "c", "x y", "w2").compile_result().workloads_reused(), 0) << "the second one";
  const v1::Job shared = compiled(bench, "d", "x y z", "w3");
  EXPECT_EQ(shared.compile_result().workloads(), 3);
  EXPECT_EQ(shared.compile_result().workloads_reused(), 2);
  EXPECT_FALSE(shared.cached()) << "artifacts are never shared";
  // They belong to the project now: it holds the blobs.
  EXPECT_TRUE(bench.store
                  ->read([&](storage::Reader& reader) {
                    EXPECT_GT(reader.usageOf("d")->blobs, 3) << "two objects that were there, and what it made";
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST(Sharing, OneCredentialIsOneWitnessWhateverItCallsItself) {
  SchedulerFixture bench(rulesThatShare());
  bench.owners = {{"w1", "a stranger"}, {"w2", "a stranger"}, {"w3", "another"}};
  registerAll(bench);
  (void)compiled(bench, "a", "x", "w1");
  EXPECT_EQ(compiled(bench, "b", "x", "w2").compile_result().workloads_reused(), 0);
  EXPECT_EQ(compiled(bench, "c", "x", "w3").compile_result().workloads_reused(), 0) << "still one";
  EXPECT_EQ(compiled(bench, "d", "x", "w1").compile_result().workloads_reused(), 1);
}

TEST(Sharing, IsOffUnlessAnOperatorSaysSo) {
  SchedulerFixture bench(rulesThatShare(false));
  registerAll(bench);
  for (const auto& [project, worker] : {std::pair("a", "w1"), std::pair("b", "w2"), std::pair("c", "w3")}) {
    EXPECT_EQ(compiled(bench, project, "x", worker).compile_result().workloads_reused(), 0) << project;
  }
}

TEST(Sharing, EndsWithAWorkerThatMadeSomethingElse) {
  SchedulerFixture bench(rulesThatShare());
  registerAll(bench);
  (void)compiled(bench, "a", "x", "w1");
  (void)compiled(bench, "b", "x", "w2");
  EXPECT_EQ(compiled(bench, "c", "x", "w3").compile_result().workloads_reused(), 1);
  // A project that skips the cache has the object built again, by a malicious worker.
  v1::CreateJobRequest anew = bench.request("r of d", "net", "x");
  anew.set_skip_cache(true);
  (void)bench.store->transact([&](storage::Transaction& tx) { return tx.putBlob(anew.compile().model(), "d"); });
  v1::Target target;
  target.set_name("test-target");
  ASSERT_TRUE(bench.scheduler().createJob(anew, target, "d").ok());
  for (v1::Lease lease = bench.lease("w3"); !lease.task_id().empty(); lease = bench.lease("w3")) {
    v1::TaskResult result = bench.work.run(lease.task());
    if (lease.task().kind() == v1::BUILD) {
      *result.mutable_files(0)->mutable_digest() = bench.put("a forged object");
    }
    (void)bench.report("w3", lease, result);
  }
  EXPECT_EQ(compiled(bench, "e", "x", "w2").compile_result().workloads_reused(), 0);
}

TEST(Sharing, ForgetsWhatWasCollected) {
  SchedulerFixture bench(rulesThatShare());
  registerAll(bench);
  v1::Digest object;
  object.set_sha256(std::string(64, 'a'));
  v1::Reproduction reproduction;
  *reproduction.add_witnesses()->mutable_object() = object;
  ASSERT_TRUE(bench.store
                  ->transact([&](storage::Transaction& tx) -> absl::Status {
                    EXPECT_TRUE(tx.putBlob(object, "a").ok());
                    EXPECT_TRUE(tx.putReproduction("key", reproduction).ok());
                    EXPECT_EQ(tx.getReproduction("key")->witnesses_size(), 1);
                    EXPECT_TRUE(tx.erase(storage::Kind::kBlob, object.sha256()).ok());
                    EXPECT_TRUE(absl::IsNotFound(tx.getReproduction("key").status()));
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST(RequiredSandbox, KeepsOutWhoHasLess) {
  Rules rules = SchedulerFixture::defaultRules();
  rules.required_sandbox = {"files", "user"};
  SchedulerFixture bench(rules);
  v1::RegisterWorkerRequest request;
  request.set_worker_id("w");
  request.set_compiler_version(rules.compiler_version);
  v1::SandboxMeasure* files = request.add_sandbox();
  files->set_name("files");
  files->set_in_force(true);
  v1::SandboxMeasure* user = request.add_sandbox();
  user->set_name("user");
  user->set_detail("tasks have the worker's own");
  const absl::Status refused = bench.scheduler().registerWorker(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("user (tasks have the worker's own)"));
  user->set_in_force(true);
  EXPECT_TRUE(bench.scheduler().registerWorker(request).ok());
  EXPECT_EQ(bench.worker("w").sandbox_size(), 2);
}

TEST(RequiredSandbox, FullTakesNoneThatTellsNothing) {
  Rules rules = SchedulerFixture::defaultRules();
  rules.required_sandbox = {"full"};
  SchedulerFixture bench(rules);
  v1::RegisterWorkerRequest request;
  request.set_worker_id("w");
  request.set_compiler_version(rules.compiler_version);
  EXPECT_FALSE(bench.scheduler().registerWorker(request).ok());
  request.add_sandbox()->set_name("files");
  EXPECT_FALSE(bench.scheduler().registerWorker(request).ok());
  request.mutable_sandbox(0)->set_in_force(true);
  EXPECT_TRUE(bench.scheduler().registerWorker(request).ok());
}

}  // namespace
}  // namespace tessera::server
