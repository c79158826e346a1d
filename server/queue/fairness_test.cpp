// The order of waiting work: jobs in progress are finished, clients alternate, no task waits forever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::ElementsAre;

v1::CreateJobRequest from(v1::CreateJobRequest request, const std::string& client, int priority = 0) {
  request.set_client(client);
  request.set_priority(priority);
  return request;
}

/// Name of the model that the next lease plans.
std::string nextPlanned(SchedulerFixture& bench) { return bench.lease("w").task().plan().spec().name(); }

TEST(Fairness, ABatchFinishesItsFirstJobBeforeItPlansItsLast) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  std::vector<std::string> jobs;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "m" + std::to_string(i);
    jobs.push_back(bench.create(bench.request(name, name, "a" + name + " b" + name))->id());
    bench.clock.advance(1000);
  }
  for (int task = 0; task < 4; ++task) {
    ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  }
  EXPECT_EQ(bench.job(jobs[0]).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(bench.job(jobs[1]).state(), v1::Job::QUEUED);
}

TEST(Fairness, ALateClientDoesNotWaitForAllOfABatch) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  for (int i = 0; i < 20; ++i) {
    const std::string name = "batch" + std::to_string(i);
    (void)bench.create(from(bench.request(name, name, ""), "ci"));
  }
  EXPECT_EQ(nextPlanned(bench), "batch0");
  EXPECT_EQ(nextPlanned(bench), "batch1");
  for (int i = 0; i < 3; ++i) {
    const std::string name = "mine" + std::to_string(i);
    (void)bench.create(from(bench.request(name, name, ""), "engineer"));
  }
  std::vector<std::string> order;
  for (int i = 0; i < 8; ++i) {
    order.push_back(nextPlanned(bench));
  }
  EXPECT_THAT(order, ElementsAre("batch2", "mine0", "batch3", "mine1", "batch4", "mine2", "batch5", "batch6"));
}

TEST(Fairness, AJoinedClientsTurnCounts) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  for (int i = 0; i < 10; ++i) {
    const std::string name = "batch" + std::to_string(i);
    (void)bench.create(from(bench.request(name, name, ""), "ci"));
  }
  (void)bench.create(from(bench.request("mine", "batch9", ""), "engineer"));
  EXPECT_EQ(nextPlanned(bench), "batch0");
  EXPECT_EQ(nextPlanned(bench), "batch9");
}

TEST(Fairness, PriorityOutweighsTurnsAndAgeOutweighsPriority) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  (void)bench.create(from(bench.request("old", "old", ""), "a"));
  bench.clock.advance(bench.scheduler().rules().ageing_us);
  (void)bench.create(from(bench.request("urgent", "urgent", ""), "b", 2));
  (void)bench.create(from(bench.request("more", "more urgent", ""), "b", 3));
  EXPECT_EQ(nextPlanned(bench), "more urgent");
  bench.clock.advance(2 * bench.scheduler().rules().ageing_us);
  (void)bench.create(from(bench.request("new", "newest", ""), "b", 2));
  bench.registerWorker("w");
  EXPECT_EQ(nextPlanned(bench), "urgent") << "it has aged too, by 2, and the old one by 3";
  EXPECT_EQ(nextPlanned(bench), "old") << "3 against the newest one's 2";
  EXPECT_EQ(nextPlanned(bench), "newest");
}

TEST(Fairness, AFullProjectsQueueLetsOthersPassAndGoesOnInItsOrder) {
  Rules rules = SchedulerFixture::defaultRules();
  rules.quota_of = [](const std::string& project) {
    v1::Quota quota;
    quota.set_running_jobs(project == "vision" ? 1 : 0);
    return quota;
  };
  SchedulerFixture bench(rules);
  bench.registerWorker("w");
  const auto create = [&](const std::string& project, const std::string& name) {
    const v1::CreateJobRequest request = bench.request(name, name, "x" + name + " y" + name);
    EXPECT_TRUE(
        bench.store->transact([&](storage::Transaction& tx) { return tx.putBlob(request.compile().model(), project); })
            .ok());
    v1::Target target;
    target.set_name("test-target");
    return bench.scheduler().createJob(request, target, project)->id();
  };
  std::vector<std::string> jobs;
  for (int i = 0; i < 100; ++i) jobs.push_back(create("vision", "v" + std::to_string(i)));
  const v1::Lease first = bench.lease("w");
  EXPECT_EQ(first.job_id(), jobs[0]);
  const std::string mine = create("default", "mine");
  EXPECT_EQ(bench.lease("w").job_id(), mine) << "behind 99 of a project that has its one job";
  EXPECT_EQ(bench.lease("w").task_id(), "") << "nobody else may begin";
  ASSERT_TRUE(bench.finish("w", first).ok());
  const v1::Lease build = bench.lease("w"), other = bench.lease("w");
  EXPECT_EQ(build.job_id(), jobs[0]) << "what has begun goes on";
  EXPECT_EQ(other.job_id(), jobs[0]);
  EXPECT_EQ(bench.lease("w").task_id(), "");
  ASSERT_TRUE(bench.finish("w", build).ok());
  ASSERT_TRUE(bench.finish("w", other).ok());
  const v1::Lease last = bench.lease("w");
  EXPECT_EQ(last.job_id(), jobs[0]);
  EXPECT_EQ(bench.lease("w").task_id(), "");
  ASSERT_TRUE(bench.finish("w", last).ok());
  EXPECT_EQ(bench.job(jobs[0]).state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(bench.lease("w").job_id(), jobs[1]) << "in the order they came";
  EXPECT_EQ(bench.lease("w").task_id(), "");
}

TEST(Fairness, AFullProjectsOldBacklogAgesNobodysQueue) {
  Rules rules = SchedulerFixture::defaultRules();
  rules.quota_of = [](const std::string& project) {
    v1::Quota quota;
    quota.set_running_jobs(project == "vision" ? 1 : 0);
    return quota;
  };
  SchedulerFixture bench(rules);
  bench.registerWorker("w");
  const auto create = [&](const std::string& project, const std::string& name, int priority) {
    const v1::CreateJobRequest request = from(bench.request(name, name, ""), "ci", priority);
    EXPECT_TRUE(
        bench.store->transact([&](storage::Transaction& tx) { return tx.putBlob(request.compile().model(), project); })
            .ok());
    v1::Target target;
    target.set_name("test-target");
    EXPECT_TRUE(bench.scheduler().createJob(request, target, project).ok());
  };
  for (int i = 0; i < 20; ++i) create("vision", "v" + std::to_string(i), 0);
  EXPECT_EQ(nextPlanned(bench), "v0");
  bench.clock.advance(10 * rules.ageing_us);
  bench.registerWorker("w");
  create("default", "plain", 0);
  create("default", "urgent", 2);
  EXPECT_EQ(nextPlanned(bench), "urgent") << "what nobody may begin has no age";
  EXPECT_EQ(nextPlanned(bench), "plain");
}

TEST(Fairness, PositionsAreToldWithoutCountingTheQueue) {
  SchedulerFixture bench;
  const auto positionOf = [&](const v1::Job& job) {
    for (const v1::JobEvent& event : bench.events(job.id())) {
      if (event.has_queue()) {
        return event.queue().position();
      }
    }
    return -1;
  };
  for (int i = 0; i < 5; ++i) {
    const std::string name = "m" + std::to_string(i);
    EXPECT_EQ(positionOf(*bench.create(bench.request(name, name, ""))), i);
  }
  EXPECT_EQ(positionOf(*bench.create(from(bench.request("urgent", "urgent", ""), "x", 1))), 0);
}

}  // namespace
}  // namespace tessera::server
