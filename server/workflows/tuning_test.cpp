// A tune job from request to result: no candidate ends it, and no candidate's blob remains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>

#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using Result = v1::MeasureTaskResult;

v1::CreateJobRequest tuning(SchedulerFixture& bench, const std::string& id, const std::string& units, int trials) {
  v1::CreateJobRequest request = bench.request(id, id, units);
  v1::TuneSpec tune;
  *tune.mutable_compile() = request.compile();
  tune.set_trials(trials);
  *request.mutable_tune() = tune;
  return request;
}

/// A host that can spare one core for measurements.
v1::HostInfo hostOfTwoCores() {
  v1::HostInfo host;
  host.set_hostname("h");
  host.set_cores(2);
  return host;
}

void measured(Result& result, double ms) { result.set_candidate_ms(0, ms); }

std::vector<v1::TuningRecord> records(SchedulerFixture& bench) {
  std::vector<v1::TuningRecord> found;
  EXPECT_TRUE(bench.store
                  ->read([&](storage::Reader& reader) {
                    storage::ListQuery query;
                    query.page_size = 1000;
                    found = reader.listRecords(query)->items;
                    return absl::OkStatus();
                  })
                  .ok());
  return found;
}

/// Whether any row or file of a candidate remains.
bool candidatesAreLeft(SchedulerFixture& bench) {
  bool left = false;
  EXPECT_TRUE(bench.blobs
                  ->forEach([&](const std::string& sha256, int64_t, int64_t) {
                    v1::Digest digest;
                    digest.set_sha256(sha256);
                    left = left || bench.get(digest).find("candidate of") != std::string::npos;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_TRUE(bench.store
                  ->read([&](storage::Reader& reader) {
                    return reader.forEach(storage::Kind::kAction, [&](const storage::Stored& stored) {
                      left = left || static_cast<const v1::Action*>(stored.message)->has_search();
                      return absl::OkStatus();
                    });
                  })
                  .ok());
  return left;
}

std::set<std::string> searchTasks(SchedulerFixture& bench) {
  std::set<std::string> kinds;
  EXPECT_TRUE(bench.store
                  ->read([&](storage::Reader& reader) {
                    return reader.forEach(storage::Kind::kTask, [&](const storage::Stored& stored) {
                      kinds.insert(v1::TaskKind_Name(static_cast<const v1::Task*>(stored.message)->spec().kind()));
                      return absl::OkStatus();
                    });
                  })
                  .ok());
  return kinds;
}

/// Worker "w" runs all tasks with the results that `run` returns. Measurements of trials end last, the oldest first.
/// The second argument of `run` is the number of measurements in progress.
void runMeasuringLast(SchedulerFixture& bench, const std::function<v1::TaskResult(const v1::TaskSpec&, size_t)>& run) {
  std::vector<v1::Lease> measurements;
  while (true) {
    const v1::Lease lease = bench.lease("w");
    if (!lease.task_id().empty() && lease.task().measure().workload_hash().empty()) {
      ASSERT_TRUE(bench.report("w", lease, run(lease.task(), measurements.size())).ok());
    } else if (!lease.task_id().empty()) {
      measurements.push_back(lease);
    } else if (!measurements.empty()) {
      ASSERT_TRUE(bench.finish("w", measurements.front()).ok());
      measurements.erase(measurements.begin());
    } else {
      return;
    }
  }
}

TEST(Tuning, TheFastestRightTreeIsCompiled) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  bench.work.trial = [](const std::string& workload, int number, Result& result) {
    if (number == 3) result.set_wrong("off by 7");  // wrong; it would have been the fastest
    measured(result, number == 3 ? 0.01 : number == 4 && workload == "a" ? 0.5 : 0.9 + 0.1 * number);
  };
  const std::string id = bench.create(tuning(bench, "m", "a b", 7))->id();
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  const v1::TuneResult& result = job.tune_result();
  EXPECT_EQ(result.trials(), 14);
  EXPECT_NE(result.artifact_id(), result.default_artifact_id());
  EXPECT_THAT(bench.get(result.pins()), HasSubstr("workload a"));
  EXPECT_THAT(bench.get(result.pins()), testing::Not(HasSubstr("workload b")));
  for (const v1::TuneResult::Workload& workload : result.workloads()) {
    EXPECT_EQ(workload.trials(), 7);
    EXPECT_EQ(workload.wrong(), 1);
    EXPECT_EQ(workload.improved(), workload.hash() == "a");
    EXPECT_EQ(workload.best().vector_bits(), workload.hash() == "a" ? 4 : 0);
  }
  EXPECT_FALSE(candidatesAreLeft(bench));
  EXPECT_THAT(searchTasks(bench), testing::Not(testing::Contains("SEARCH")));
  int passed = 0, wrong = 0, confirmed = 0;
  for (const v1::TuningRecord& record : records(bench)) {
    passed += record.outcome() == v1::TuningRecord::PASSED && record.mode() == "search";
    wrong += record.outcome() == v1::TuningRecord::WRONG_RESULT && record.reason() == "off by 7";
    confirmed += record.mode() == "confirmed";
    EXPECT_EQ(record.workload_shape().operators(), "operators of " + record.workload_hash());
  }
  EXPECT_EQ(passed, 12);
  EXPECT_EQ(wrong, 2);
  EXPECT_EQ(confirmed, 1);
}

TEST(Tuning, WhatCrashesHangsOrCannotBeBuiltIsARecord) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const std::string id = bench.create(tuning(bench, "m", "a", 5))->id();
  const v1::Failure::Reason reasons[] = {v1::Failure::CRASHED, v1::Failure::RUN_DEADLINE_EXCEEDED,
                                         v1::Failure::OUT_OF_MEMORY};
  int builds = 0, runs = 0;
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    const v1::TaskSpec& task = lease.task();
    std::optional<v1::Failure::Reason> failure;
    if (task.build().candidate() && ++builds == 1) failure = v1::Failure::INTERNAL;
    if (!task.measure().workload_hash().empty() && ++runs <= 3) failure = reasons[runs - 1];
    ASSERT_TRUE(bench.report("w", lease, failure ? failedResult(*failure) : bench.work.run(task)).ok());
  }
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  const v1::TuneResult::Workload& workload = job.tune_result().workloads(0);
  EXPECT_EQ(workload.trials(), 5);
  EXPECT_EQ(workload.unbuilt(), 1);
  EXPECT_EQ(workload.crashed(), 2);
  EXPECT_EQ(workload.timed_out(), 1);
  EXPECT_EQ(workload.failures_size(), 4);
  EXPECT_EQ(job.tune_result().artifact_id(), job.tune_result().default_artifact_id());
  EXPECT_THAT(job.tune_result().note(), HasSubstr("no tree is faster"));
  EXPECT_EQ(records(bench).size(), 5u);
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, GoesOnAfterAKillFromTheLastTrial) {
  SchedulerFixture bench;
  bench.registerWorker("local-0");
  const std::string id = bench.create(tuning(bench, "m", "a b", 6))->id();
  for (int64_t pid = 2; bench.job(id).state() != v1::Job::SUCCEEDED; ++pid) {
    ASSERT_LT(pid, 200);
    (void)bench.lease("local-0");  // lost in the crash
    bench.restart();
    bench.registerWorker("local-0", pid);
    for (int task = 0; task < 2; ++task) {
      const v1::Lease lease = bench.lease("local-0");
      if (!lease.task_id().empty()) ASSERT_TRUE(bench.finish("local-0", lease).ok());
    }
  }
  std::multiset<std::pair<std::string, int>> trials;
  for (const v1::TuningRecord& record : records(bench)) {
    if (record.mode() == "search") trials.emplace(record.workload_hash(), record.trial());
  }
  EXPECT_EQ(trials.size(), 12u);
  for (const char* workload : {"a", "b"}) {
    for (int trial = 1; trial <= 6; ++trial) EXPECT_EQ(trials.count({workload, trial}), 1u) << workload << trial;
  }
}

TEST(Tuning, EqualWorkloadsAreSearchedOnceAndGoOnForWhoIsLeft) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const std::string first = bench.create(tuning(bench, "m", "a b", 8))->id();
  while (records(bench).empty()) {
    ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  }
  const std::string second = bench.create(tuning(bench, "n", "a c", 8))->id();
  while (bench.job(second).tune_result().workloads().empty() && bench.job(second).progress().phase() != "search") {
    ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  }
  ASSERT_TRUE(bench.scheduler().cancelJob(first).ok());
  EXPECT_GT(bench.job(first).tune_result().trials(), 0) << "a cancelled job tells what it found";
  bench.runAll("w");
  const v1::Job job = bench.job(second);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  std::multiset<std::string> trials;
  for (const v1::TuningRecord& record : records(bench)) trials.insert(record.workload_hash());
  EXPECT_EQ(trials.count("a"), 8u);
  EXPECT_EQ(trials.count("c"), 8u);
  for (const v1::TuneResult::Workload& workload : job.tune_result().workloads()) {
    EXPECT_EQ(workload.shared(), workload.hash() == "a");
  }
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, ACancelledJobLeavesNothingOfItsSearch) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const std::string id = bench.create(tuning(bench, "m", "a", 50))->id();
  while (records(bench).size() < 7) {
    ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  }
  const v1::Lease running = bench.lease("w");
  ASSERT_TRUE(bench.scheduler().cancelJob(id).ok());
  EXPECT_EQ(bench.job(id).state(), v1::Job::CANCELLED);
  EXPECT_NE(bench.beat("w", running), v1::HeartbeatResponse::GO_ON);
  EXPECT_TRUE(absl::IsAborted(bench.report("w", running, failedResult(v1::Failure::CANCELLED))));
  EXPECT_TRUE(bench.lease("w").task_id().empty());
  EXPECT_THAT(bench.worker("w").task_ids(), IsEmpty());
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, TheBudgetEndsItWithWhatWasFound) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  bench.work.trial = [](const std::string&, int number, Result& result) { measured(result, number == 2 ? 0.5 : 2); };
  v1::CreateJobRequest request = tuning(bench, "m", "a", 1000);
  request.mutable_tune()->set_budget_us(30'000'000);
  const std::string id = bench.create(request)->id();
  while (records(bench).size() < 8) {  // one of them is a confirmation
    ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  }
  bench.clock.advance(31'000'000);
  ASSERT_TRUE(bench.scheduler().sweep().ok());
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_EQ(job.tune_result().trials(), 7);
  EXPECT_THAT(job.tune_result().note(), HasSubstr("budget"));
  EXPECT_TRUE(job.tune_result().has_pins());
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, TheNextBatchIsProposedWhileTheLastOneIsMeasured) {
  SchedulerFixture bench;
  bench.registerWorker("w", 1, {}, hostOfTwoCores());
  bench.work.trial = [](const std::string&, int number, Result& result) { measured(result, 1 + 0.01 * number); };
  const std::string id = bench.create(tuning(bench, "m", "a", 13))->id();
  std::vector<std::vector<int>> pending;
  std::vector<size_t> under_way;
  runMeasuringLast(bench, [&](const v1::TaskSpec& task, size_t measured) {
    const v1::TaskResult result = bench.work.run(task);
    if (result.has_search()) {
      under_way.push_back(measured);
      const auto& late = result.search().batch().pending();
      pending.emplace_back(late.begin(), late.end());
    }
    return result;
  });
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_EQ(job.tune_result().trials(), 13);
  ASSERT_EQ(pending.size(), 3u);
  EXPECT_THAT(pending[0], IsEmpty());
  EXPECT_FALSE(pending[1].empty());
  EXPECT_GT(under_way[1], 0u);
  std::multiset<int> numbers;
  for (const v1::TuningRecord& record : records(bench)) numbers.insert(record.trial());
  EXPECT_EQ(numbers.size(), 13u);
  EXPECT_EQ(*numbers.rbegin(), 13);
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, WhoseTrialsAllWaitToBeTimedLeavesItsPlaceToAnother) {
  SchedulerFixture bench;
  bench.registerWorker("w", 1, {}, hostOfTwoCores());
  const std::string id = bench.create(tuning(bench, "m", "a b c d e f", 5))->id();
  std::optional<v1::Lease> timed;  // the first of all trials, which continues
  std::vector<std::string> searched;
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    if (!lease.task().measure().workload_hash().empty()) {
      timed = lease;
      continue;
    }
    if (lease.task().has_search()) searched.push_back(lease.task().search().search());
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  ASSERT_TRUE(timed.has_value());
  // One slot keeps two searches in progress, and two more because those wait: not all six, whose order may change
  // meanwhile.
  EXPECT_EQ(searched.size(), 4u);
  EXPECT_EQ(std::set<std::string>(searched.begin(), searched.end()).size(), 4u);
  ASSERT_TRUE(bench.finish("w", *timed).ok());
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_EQ(job.tune_result().trials(), 30);
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, AProposalAheadThatFailsIsMadeAgainInItsTime) {
  SchedulerFixture bench;
  bench.registerWorker("w", 1, {}, hostOfTwoCores());
  const std::string id = bench.create(tuning(bench, "m", "a", 12))->id();
  int failed = 0;
  runMeasuringLast(bench, [&](const v1::TaskSpec& task, size_t measured) {
    if (!task.has_search() || measured == 0) return bench.work.run(task);
    ++failed;
    return failedResult(v1::Failure::INCOMPATIBLE_HOST);
  });
  EXPECT_GT(failed, 0);
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_EQ(job.tune_result().trials(), 12);
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, ABatchThatTellsOfOtherTreesThanItProposesIsRefused) {
  for (const bool more : {false, true}) {
    SchedulerFixture bench;
    bench.registerWorker("w");
    const std::string id = bench.create(tuning(bench, "m", "a", 5))->id();
    for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
      v1::TaskResult result = bench.work.run(lease.task());
      if (result.has_search()) {
        v1::SearchLog::Batch& batch = *result.mutable_search()->mutable_batch();
        more ? batch.add_refused(false) : batch.add_speeds(2);
      }
      ASSERT_TRUE(bench.report("w", lease, result).ok());
    }
    const v1::Job job = bench.job(id);
    ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
    EXPECT_EQ(job.tune_result().trials(), 0);
    ASSERT_EQ(job.tune_result().workloads(0).failures_size(), 1);
    EXPECT_THAT(job.tune_result().workloads(0).failures(0), HasSubstr("the search ended"));
    EXPECT_THAT(job.tune_result().workloads(0).failures(0), HasSubstr("its batch has"));
  }
}

TEST(Tuning, AnUnknownMethodIsTheRequestsFault) {
  SchedulerFixture bench;
  bench.registerWorker("w");
  const std::string id = bench.create(tuning(bench, "m", "a b", 5))->id();
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    ASSERT_TRUE(bench
                    .report("w", lease,
                            lease.task().kind() == v1::SEARCH ? failedResult(v1::Failure::INVALID_INPUT)
                                                              : bench.work.run(lease.task()))
                    .ok());
  }
  EXPECT_EQ(bench.job(id).state(), v1::Job::FAILED);
  EXPECT_EQ(bench.job(id).failure().reason(), v1::Failure::INVALID_INPUT);
  EXPECT_FALSE(candidatesAreLeft(bench));
}

TEST(Tuning, AMeasurementSharesItsCoresWithNothing) {
  SchedulerFixture bench;
  for (const char* worker : {"w1", "w2", "w3"}) bench.registerWorker(worker, 1, {}, hostOfTwoCores());
  const std::string id = bench.create(tuning(bench, "m", "a", 10))->id();
  // The whole model is timed before any search; other tasks stay off the lent core even then.
  while (bench.job(id).progress().phase() != "search") {
    const v1::Lease lease = bench.lease("w1");
    if (lease.task().kind() == v1::MEASURE) {
      EXPECT_EQ(lease.cores(), v1::MEASURING);
      ASSERT_TRUE(bench.create(bench.request("other", "other", "x")).ok());
      EXPECT_EQ(bench.lease("w2").cores(), v1::OTHERS);
    }
    ASSERT_TRUE(bench.finish("w1", lease).ok());
  }
  ASSERT_TRUE(bench.finish("w1", bench.lease("w1")).ok());  // SEARCH
  for (int build = 0; build < 5; ++build) {
    const v1::Lease lease = bench.lease("w1");
    EXPECT_TRUE(lease.task().build().candidate());
    EXPECT_EQ(lease.cores(), v1::OTHERS);
    ASSERT_TRUE(bench.finish("w1", lease).ok());
    if (build == 1) {
      const v1::Lease timed = bench.lease("w1"), beside = bench.lease("w3");
      EXPECT_EQ(timed.task().kind(), v1::MEASURE);
      EXPECT_NE(beside.task().kind(), v1::MEASURE) << "there is one core for that, and it is taken";
      ASSERT_TRUE(bench.finish("w1", timed).ok());
      ASSERT_TRUE(bench.finish("w3", beside).ok());
      break;
    }
    const v1::Lease timed = bench.lease("w1");
    EXPECT_EQ(timed.cores(), v1::MEASURING);
    ASSERT_TRUE(bench.finish("w1", timed).ok());
  }
}

}  // namespace
}  // namespace tessera::server
