// Versions of a tune job's artifact, state of its searches, and attacks of workers on both.
#include "server/workflows/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/testing/scheduler_bench.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Versions : public testing::Test {
 protected:
  Versions() { bench.registerWorker("w"); }

  std::string tune(const std::string& units, int trials, v1::TuneMode mode = v1::ASYNC,
                   const std::string& project = kDefaultProject, int64_t total_timeout_us = 0) {
    const v1::CreateJobRequest compile = bench.request("m", "m", units);
    const v1::Digest& model = compile.compile().model();
    EXPECT_TRUE(bench.store->transact([&](storage::Transaction& tx) { return tx.putBlob(model, project); }).ok());
    v1::CreateJobRequest request;
    request.set_request_id("m");
    request.set_total_timeout_us(total_timeout_us);
    *request.mutable_tune()->mutable_compile() = compile.compile();
    request.mutable_tune()->set_trials(trials);
    v1::Target target;
    target.set_name("test-target");
    const auto job = bench.scheduler().createJob(request, target, project, mode);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->id() : "";
  }

  /// Speed of the trees with these numbers, relative to the default.
  void speeds(const std::map<std::pair<std::string, int>, double>& speeds) {
    bench.work.trial = [speeds](const std::string& workload, int number, v1::MeasureTaskResult& result) {
      const auto found = speeds.find({workload, number});
      result.set_candidate_ms(0, found == speeds.end() ? 1.5 : 1 / found->second);
    };
  }

  template <typename Answer>
  Answer read(const std::function<absl::StatusOr<Answer>(storage::Reader&)>& ask) {
    Answer answer{};
    EXPECT_TRUE(bench.store
                    ->read([&](storage::Reader& reader) -> absl::Status {
                      TESSERA_ASSIGN_OR_RETURN(answer, ask(reader));
                      return absl::OkStatus();
                    })
                    .ok());
    return answer;
  }
  std::vector<v1::ArtifactVersion> versions(const std::string& job) {
    return read<std::vector<v1::ArtifactVersion>>(
        [&](storage::Reader& reader) { return reader.versionsAfter(job, 0, INT_MAX); });
  }
  int64_t lastUse(storage::Kind kind, const std::string& id) {
    return read<int64_t>([&](storage::Reader& reader) { return reader.lastUse(kind, id); });
  }
  std::vector<v1::TuningRecord> records() {
    storage::ListQuery query;
    query.page_size = 1000;
    return read<storage::Page<v1::TuningRecord>>([&](storage::Reader& reader) { return reader.listRecords(query); })
        .items;
  }
  /// Trees by workload of each version, as "1: a" or "-".
  std::vector<std::string> tunedIn(const std::string& job) {
    std::vector<std::string> texts;
    for (const v1::ArtifactVersion& version : versions(job)) texts.push_back(std::to_string(version.tuned_workloads()));
    return texts;
  }
  void step() {
    const v1::Lease lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty());
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  /// The next lease of a task for which `wanted` holds; finishes the tasks before it.
  v1::Lease until(const std::string& worker, const std::function<bool(const v1::TaskSpec&)>& wanted) {
    for (int i = 0; i < 1000; ++i) {
      v1::Lease lease = bench.lease(worker);
      if (lease.task_id().empty()) break;
      if (wanted(lease.task())) return lease;
      EXPECT_TRUE(bench.finish(worker, lease).ok());
    }
    ADD_FAILURE() << "no such task";
    return {};
  }
  static bool buildsCandidate(const v1::TaskSpec& task) { return task.build().candidate(); }
  static bool measuresTree(const v1::TaskSpec& task) { return !task.measure().workload_hash().empty(); }

  SchedulerFixture bench;
};

TEST_F(Versions, AnAsyncArtifactIsThereAtOnceAndGrowsWhileTheSearchesGoOn) {
  speeds({{{"a", 2}, 2.0}, {{"b", 3}, 1.5}});
  const std::string id = tune("a b", 12);
  while (versions(id).empty()) step();
  EXPECT_EQ(bench.job(id).state(), v1::Job::RUNNING);
  const std::string first = versions(id)[0].artifact_id();
  while (versions(id).size() < 2) step();
  EXPECT_EQ(bench.job(id).state(), v1::Job::RUNNING) << "while searches go on";
  EXPECT_EQ(bench.job(id).progress().phase(), "search") << "which is what the job shows";
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_THAT(tunedIn(id), ElementsAre("0", "1", "2"));
  EXPECT_EQ(job.tune_result().default_artifact_id(), first);
  EXPECT_EQ(job.tune_result().artifact_id(), versions(id).back().artifact_id());
  EXPECT_EQ(job.tune_result().best_ms(), 0.5);
  for (const char* workload : {"workload a", "workload b"})
    EXPECT_THAT(bench.get(job.tune_result().pins()), HasSubstr(workload));
  for (int number = 1; const v1::ArtifactVersion& version : versions(id)) EXPECT_EQ(version.number(), number++);
}

TEST_F(Versions, AStaticArtifactIsThereOnceInTheEnd) {
  speeds({{{"a", 2}, 2.0}});
  const std::string id = tune("a", 12, v1::STATIC);
  while (bench.job(id).state() != v1::Job::SUCCEEDED) {
    EXPECT_TRUE(versions(id).empty());
    step();
  }
  EXPECT_THAT(tunedIn(id), ElementsAre("1"));
  int confirmed = 0;
  for (const v1::TuningRecord& record : records()) confirmed += record.mode() == "confirmed";
  EXPECT_EQ(confirmed, 1) << "nobody would use it earlier";
}

TEST_F(Versions, ASyncArtifactGrowsBetweenPhasesOfAllSearches) {
  speeds({{{"a", 2}, 2.0}, {{"b", 3}, 1.5}, {{"b", 7}, 3}});
  const std::string id = tune("a b c", 10, v1::SYNC);
  std::multiset<std::string> proposed;
  while (bench.job(id).state() != v1::Job::SUCCEEDED) {
    const v1::Lease lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty());
    if (lease.task().kind() == v1::SEARCH) proposed.insert(lease.task().search().search());
    ASSERT_TRUE(bench.finish("w", lease).ok());
    int fewest = INT_MAX, most = 0;
    for (const std::string& search : std::set<std::string>(proposed.begin(), proposed.end())) {
      const int count = static_cast<int>(proposed.count(search));
      fewest = std::min(fewest, count);
      most = std::max(most, count);
    }
    if (most > 1) EXPECT_LE(most - fewest, 1) << "no search is a phase ahead";
    if (versions(id).size() == 2) EXPECT_EQ(versions(id)[1].tuned_workloads(), 2) << "of the first phase of both";
  }
  EXPECT_THAT(tunedIn(id), ElementsAre("0", "2", "2"));
}

TEST_F(Versions, WhatMakesTheModelSlowerIsDroppedAndTheRestStays) {
  speeds({{{"a", 2}, 2.0}, {{"b", 3}, 1.5}, {{"c", 1}, 1.2}});
  bench.work.model = [](const std::string& pins, v1::MeasureTaskResult& result) {
    const bool slow = absl::StrContains(pins, "workload b");
    if (result.candidate_ms_size() > 0) result.set_candidate_ms(0, slow ? 1.1 : 0.6);
    for (auto& step : *result.mutable_steps())
      if (step.workload_hash() == "b") step.set_median_ms(3);
  };
  const std::string id = tune("a b c", 5, v1::STATIC);  // all three at once
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_THAT(tunedIn(id), ElementsAre("2"));
  EXPECT_THAT(job.tune_result().note(), HasSubstr("the tree of b was dropped"));
  const std::string pins = bench.get(job.tune_result().pins());
  EXPECT_THAT(pins, HasSubstr("workload a"));
  EXPECT_THAT(pins, HasSubstr("workload c"));
  EXPECT_THAT(pins, Not(HasSubstr("workload b")));
  EXPECT_EQ(job.tune_result().best_ms(), 0.6);
  for (const v1::TuneResult::Workload& workload : job.tune_result().workloads())
    EXPECT_EQ(workload.improved(), workload.hash() != "b");
}

TEST_F(Versions, WhatChangesResultsIsDroppedToo) {
  speeds({{{"a", 2}, 2.0}, {{"b", 3}, 1.5}});
  bench.work.model = [](const std::string& pins, v1::MeasureTaskResult& result) {
    if (absl::StrContains(pins, "workload a")) result.set_wrong("off by 7");
  };
  const std::string id = tune("a b", 5);
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_THAT(job.tune_result().note(), HasSubstr("results change with it: off by 7"));
  const auto last = versions(id).back();
  if (job.tune_result().has_pins()) EXPECT_THAT(bench.get(job.tune_result().pins()), Not(HasSubstr("workload a")));
  EXPECT_EQ(job.tune_result().artifact_id(), last.artifact_id());
}

TEST_F(Versions, GoingBackIsOneCallAndLaterVersionsAreHeld) {
  speeds({{{"a", 2}, 2.0}, {{"b", 8}, 1.5}});
  const std::string id = tune("a b", 12);
  while (versions(id).size() < 2) step();
  EXPECT_TRUE(absl::IsNotFound(bench.choose(id, 7).status()));
  const auto back = bench.choose(id, 1);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->number(), 3);
  EXPECT_EQ(back->same_as(), 1);
  EXPECT_EQ(back->artifact_id(), versions(id)[0].artifact_id());
  bench.runAll("w");
  const auto all = versions(id);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[3].held());
  EXPECT_EQ(all[3].tuned_workloads(), 2);
  const auto newest = bench.choose(id, 0);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->artifact_id(), all[3].artifact_id()) << "of a job that is over, too";
  EXPECT_FALSE(newest->held());
}

TEST_F(Versions, AJobsArtifactIsRunByTheJobsName) {
  speeds({{{"a", 2}, 2.0}, {{"b", 8}, 1.5}});
  const std::string id = tune("a b", 12);
  int requests = 0;
  const auto run = [&](int number, const std::string& request_id = "", const std::string& project = kDefaultProject) {
    v1::CreateJobRequest request;
    request.set_request_id(request_id.empty() ? absl::StrCat("run ", ++requests) : request_id);
    request.mutable_execute()->set_job_id(id);
    request.mutable_execute()->set_version(number);
    return bench.scheduler().createJob(request, {}, project);
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(run(0).status())) << "there is none yet";
  while (versions(id).empty()) step();
  const auto first = run(0, "first");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->execute().artifact_id(), versions(id)[0].artifact_id());
  EXPECT_EQ(first->execute().version(), 1);

  while (versions(id).size() < 2) step();
  const auto second = run(0);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->execute().artifact_id(), versions(id)[1].artifact_id());
  EXPECT_EQ(second->execute().version(), 2);
  const auto again = run(0, "first");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), first->id()) << "the same request is the same run, of what was the newest then";
  EXPECT_EQ(again->execute().version(), 1);
  EXPECT_EQ(run(1)->execute().artifact_id(), versions(id)[0].artifact_id());

  ASSERT_TRUE(bench.choose(id, 1).ok());
  EXPECT_EQ(run(0)->execute().artifact_id(), versions(id)[0].artifact_id()) << "what was chosen is run";
  EXPECT_TRUE(absl::IsNotFound(run(77).status()));
  EXPECT_TRUE(absl::IsNotFound(run(0, "", "another").status())) << "of another project's job nobody hears";

  // A task runs the artifact that its job had selected when it was created.
  std::multiset<std::string> ran,
      wanted = {bench.job(first->id()).execute().artifact_id(), bench.job(second->id()).execute().artifact_id()};
  for (size_t i = 0; i < wanted.size(); ++i) {
    const v1::Lease lease = until("w", [&](const v1::TaskSpec& task) { return task.has_execute(); });
    ran.insert(lease.task().execute().artifact_id());
    EXPECT_EQ(lease.task().inputs(0).sha256(), lease.task().execute().artifact_id());
    EXPECT_TRUE(bench.finish("w", lease).ok());
  }
  EXPECT_EQ(ran, wanted);
}

TEST_F(Versions, ACompileJobHasOneArtifactAndOthersNone) {
  const v1::Job compiled = *bench.create(bench.request("c", "net", "a"));
  v1::CreateJobRequest request;
  request.set_request_id("too early");
  request.mutable_profile()->set_job_id(compiled.id());
  const auto run = [&] { return bench.scheduler().createJob(request, {}, kDefaultProject); };
  EXPECT_TRUE(absl::IsFailedPrecondition(run().status()));
  bench.runAll("w");
  request.set_request_id("now");
  const auto job = run();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->profile().artifact_id(), bench.job(compiled.id()).compile_result().artifact_id());
  EXPECT_EQ(job->profile().version(), 0);
  request.mutable_profile()->set_version(1);
  request.set_request_id("a version");
  EXPECT_TRUE(absl::IsNotFound(run().status()));
  request.mutable_profile()->set_version(0);
  request.mutable_profile()->set_job_id(job->id());
  request.set_request_id("of a run");
  const absl::Status none = run().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(none.message(), HasSubstr("is no job that makes an artifact"));
}

TEST_F(Versions, WhatIsChosenIsWantedInItsOwnProject) {
  speeds({{{"a", 2}, 2.0}});
  const std::string id = tune("a", 6, v1::ASYNC, "vision"), other = tune("a", 6);
  bench.runAll("w");
  const v1::ArtifactVersion first = versions(id).front();
  ASSERT_EQ(versions(other).front().artifact_id(), first.artifact_id()) << "equal bytes";
  const int64_t before_us = lastUse(storage::Kind::kArtifact, first.artifact_id());
  bench.clock.advance(int64_t{24} * 3600 * 1'000'000);
  const auto chosen = bench.choose(id, 1);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  const std::string& sha256 = first.artifact().sha256();
  const int64_t now_us = bench.clock.nowMicros();
  EXPECT_EQ(lastUse(storage::Kind::kArtifact, storage::storedKey("vision", first.artifact_id())), now_us);
  EXPECT_EQ(lastUse(storage::Kind::kBlobReference, storage::blobReferenceKey("vision", sha256)), now_us);
  EXPECT_EQ(lastUse(storage::Kind::kBlob, sha256), now_us);
  EXPECT_EQ(lastUse(storage::Kind::kArtifact, first.artifact_id()), before_us) << "the other project's";
}

TEST_F(Versions, AStaticJobThatItsDeadlineEndsHasTheDefaultAsItsVersion) {
  const std::string id = tune("a", 1000, v1::STATIC, kDefaultProject, int64_t{600} * 1'000'000);
  (void)until("w", measuresTree);
  EXPECT_TRUE(versions(id).empty());
  bench.pass(int64_t{601} * 1'000'000);
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  ASSERT_THAT(tunedIn(id), ElementsAre("0"));
  EXPECT_EQ(versions(id)[0].artifact_id(), job.tune_result().artifact_id());
  EXPECT_EQ(versions(id)[0].artifact_id(), job.tune_result().default_artifact_id());
}

TEST_F(Versions, ChoosingWhatRunsAlreadyAddsNoVersion) {
  speeds({{{"a", 2}, 2.0}, {{"b", 8}, 1.5}});
  const std::string id = tune("a b", 12);
  while (versions(id).size() < 2) step();
  for (const int number : {0, 2, 2}) {
    const auto chosen = bench.choose(id, number);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->number(), 2);
  }
  bench.runAll("w");
  auto all = versions(id);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[2].held()) << "2 was chosen before";
  EXPECT_EQ(bench.choose(id, 1)->number(), 4);
  for (const int number : {1, 4}) EXPECT_EQ(bench.choose(id, number)->number(), 4);
  EXPECT_EQ(bench.choose(id, 0)->number(), 5);
  for (const int number : {0, 3, 5, 0}) EXPECT_EQ(bench.choose(id, number)->same_as(), 3);
  EXPECT_EQ(versions(id).size(), 5u);
}

TEST_F(Versions, ChoicesAddVersionsUpToABound) {
  speeds({{{"a", 2}, 2.0}});
  const std::string id = tune("a", 6);
  bench.runAll("w");
  const std::vector<v1::ArtifactVersion> made = versions(id);
  ASSERT_EQ(made.size(), 2u);
  ASSERT_TRUE(bench.store
                  ->transact([&](storage::Transaction& tx) -> absl::Status {
                    auto series = *tx.getRollout(id);
                    for (int number = 3; number < kMaxVersions; ++number) {  // alternating
                      v1::ArtifactVersion version = made[number % 2 == 1 ? 0 : 1];
                      version.set_same_as(version.number());
                      version.set_number(number);
                      TESSERA_RETURN_IF_ERROR(tx.putVersion(version));
                    }
                    series.set_versions(kMaxVersions - 1);
                    series.set_chosen(1);
                    return tx.putRollout(series);
                  })
                  .ok());
  EXPECT_EQ(bench.choose(id, 2)->number(), kMaxVersions);
  const absl::Status full = bench.choose(id, 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("1000 versions"));
  EXPECT_EQ(bench.choose(id, 2)->number(), kMaxVersions) << "which adds none";
}

TEST_F(Versions, AVersionWhoseArtifactIsGoneCannotBeChosen) {
  speeds({{{"a", 2}, 2.0}});
  const std::string id = tune("a", 6);
  bench.runAll("w");
  const std::string first = versions(id).front().artifact_id();
  ASSERT_TRUE(
      bench.store->transact([&](storage::Transaction& tx) { return tx.erase(storage::Kind::kArtifact, first); }).ok());
  const absl::Status gone = bench.choose(id, 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("was collected or deleted"));
  EXPECT_TRUE(bench.choose(id, 2).ok());
  EXPECT_EQ(versions(id).size(), 2u);
}

TEST_F(Versions, AKilledServiceGoesOnWithTheVersionItMade) {
  speeds({{{"a", 2}, 2.0}, {{"b", 3}, 1.5}});
  bench.registerWorker("local-0");
  const std::string id = tune("a b", 7);
  for (int64_t pid = 2; bench.job(id).state() != v1::Job::SUCCEEDED; ++pid) {
    ASSERT_LT(pid, 200);
    (void)bench.lease("local-0");  // lost in the crash
    bench.restart();
    bench.registerWorker("local-0", pid);
    const v1::Lease lease = bench.lease("local-0");
    if (!lease.task_id().empty()) ASSERT_TRUE(bench.finish("local-0", lease).ok());
  }
  EXPECT_EQ(versions(id).front().tuned_workloads(), 0);
  EXPECT_EQ(versions(id).back().tuned_workloads(), 2);
}

TEST_F(Versions, AWorkerCannotHaveOthersBlobsDeleted) {
  bench.registerWorker("evil");
  const v1::Digest victim = bench.put("somebody's model");
  const std::string id = tune("a", 6);
  for (const bool object : {false, true}) {
    if (object) step();  // another worker proposes the trees
    const v1::Lease lease = until(
        "evil", [&](const v1::TaskSpec& task) { return object ? buildsCandidate(task) : task.kind() == v1::SEARCH; });
    ASSERT_FALSE(lease.task_id().empty());
    v1::TaskResult result = bench.work.run(lease.task());
    *result.mutable_files(0)->mutable_digest() = victim;
    ASSERT_TRUE(bench.report("evil", lease, result).ok());
    EXPECT_EQ(bench.task(lease.task_id()).state(), v1::Task::READY) << "somebody else does it";
    EXPECT_THAT(bench.worker("evil").trouble(), HasSubstr(victim.sha256()));
    bench.registerWorker("evil", object ? 3 : 2);
  }
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_EQ(job.tune_result().trials(), 6);
  EXPECT_EQ(bench.get(victim), "somebody's model");
}

TEST_F(Versions, ASearchesRowsStaySmallHoweverLongItGoesOn) {
  const std::string id = tune("a", 200);
  int given = 0;
  size_t largest = 0;
  for (int i = 0; i < 3000 && bench.job(id).state() != v1::Job::SUCCEEDED; ++i) {
    const v1::Lease lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty());
    if (lease.task().kind() == v1::SEARCH) {
      given = std::max(given, lease.task().search().log().batches_size());
      EXPECT_EQ(bench.task(lease.task_id()).spec().search().log().batches_size(), 0);
    }
    ASSERT_TRUE(bench.finish("w", lease).ok());
    if (i % 50 == 0)
      EXPECT_TRUE(bench.store
                      ->read([&](storage::Reader& reader) {
                        return reader.forEach(storage::Kind::kAction, [&](const storage::Stored& stored) {
                          const auto& action = static_cast<const v1::Action&>(*stored.message);
                          EXPECT_LE(action.search().log().batches_size(), 1);
                          largest = std::max(largest, action.ByteSizeLong());
                          return absl::OkStatus();
                        });
                      })
                      .ok());
  }
  EXPECT_EQ(bench.job(id).tune_result().trials(), 200);
  EXPECT_EQ(given, 39) << "the lease has the whole log: 40 batches of five";
  EXPECT_LT(largest, 4000u) << "bytes of a row that is written with every trial";
  std::set<int> trees;
  for (const v1::TuningRecord& record : records()) trees.insert(record.schedule().vector_bits());
  EXPECT_EQ(trees.size(), 200u) << "nothing was proposed twice";
}

TEST_F(Versions, HostsThatDifferEndNoSearch) {
  const std::string id = tune("a", 12);
  // The first batch is proposed. This host cannot replay the log for the second one, the other host can.
  const auto second = [](const v1::TaskSpec& task) {
    return task.kind() == v1::SEARCH && task.search().log().batches_size() == 1;
  };
  v1::Lease lease = until("w", second);
  bench.registerWorker("other");
  ASSERT_TRUE(bench.report("w", lease, failedResult(v1::Failure::INCOMPATIBLE_HOST)).ok());
  EXPECT_TRUE(bench.lease("w").task_id().empty()) << "it waits for the other one";
  lease = bench.lease("other");
  EXPECT_EQ(lease.task().kind(), v1::SEARCH);
  // The other host cannot either, and there is no third: the search restarts, and keeps its best tree.
  ASSERT_TRUE(bench.report("other", lease, failedResult(v1::Failure::INCOMPATIBLE_HOST)).ok());
  lease = until("other", [](const v1::TaskSpec& task) { return task.kind() == v1::SEARCH; });
  EXPECT_EQ(lease.task().search().log().batches_size(), 0);
  ASSERT_TRUE(bench.finish("other", lease).ok());
  // A tree that cannot run on one host is measured on the other. If no host can run it, that is its outcome.
  lease = until("other", measuresTree);
  ASSERT_TRUE(bench.report("other", lease, failedResult(v1::Failure::INCOMPATIBLE_HOST)).ok());
  EXPECT_EQ(bench.task(lease.task_id()).state(), v1::Task::READY);
  bench.runAll("w");
  bench.runAll("other");
  bench.runAll("w");
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_EQ(job.tune_result().trials(), 12);
}

TEST_F(Versions, TrialsAreInTheJobsEvents) {
  const std::string id = tune("a", 5);
  bench.runAll("w");
  std::map<std::string, int> attempts;
  for (const v1::JobEvent& event : bench.events(id))
    if (event.has_attempt()) ++attempts[event.attempt().phase()];
  EXPECT_EQ(attempts["search"], 1);
  EXPECT_EQ(attempts["build"], 1 + 5) << "of the default and of each candidate";
  EXPECT_EQ(attempts["measure"], 1 + 5);
}

TEST_F(Versions, ARecordsValidationDoesNotRepeatItsReason) {
  bench.work.trial = [](const std::string&, int, v1::MeasureTaskResult& result) { result.set_wrong("off by 7"); };
  tune("a", 5);
  bench.runAll("w");
  ASSERT_EQ(records().size(), 5u);
  for (const v1::TuningRecord& record : records()) {
    EXPECT_EQ(record.reason(), "off by 7");
    EXPECT_EQ(record.validation(), "failed");
  }
}

}  // namespace
}  // namespace tessera::server
