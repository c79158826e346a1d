// Open choices of the graph are measured before trees are searched.
#include "server/workflows/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

v1::AmbiguousChoice openChoice(const std::string& place, double possible_gain_us = 500) {
  v1::AmbiguousChoice open;
  v1::Choice& pin = *open.add_choices();
  pin.set_kind("algorithm");
  pin.set_place(place);
  pin.set_choice("winograd-2x2");
  open.set_instead_of("direct");
  open.set_cost_us(1000);
  open.set_alternative_us(1100);
  open.set_possible_gain_us(possible_gain_us);
  open.set_hash("hash of " + place);
  open.set_summary("algorithm winograd-2x2 instead of direct: " + place);
  return open;
}

class Choices : public testing::Test {
 protected:
  Choices() { bench.registerWorker("w"); }

  std::string tune(const std::vector<std::string>& places, int trials = 5, int most = -1) {
    for (const std::string& place : places) bench.work.ambiguous_choices.push_back(openChoice(place));
    v1::CreateJobRequest request = bench.request("request " + std::to_string(++requests), "m", "a b");
    v1::TuneSpec spec;
    *spec.mutable_compile() = request.compile();
    spec.set_trials(trials);
    if (most >= 0) spec.set_choices(most);
    *request.mutable_tune() = spec;
    return bench.create(request)->id();
  }

  /// Time of the model in milliseconds: the product of these factors for its pins; the default takes 1. A candidate is
  /// compared with the fastest artifact so far.
  void factors(const std::map<std::string, double>& factors) {
    bench.work.model = [this, factors](const std::string& pins, v1::MeasureTaskResult& result) {
      double ms = 1;
      for (const auto& [piece, factor] : factors)
        if (absl::StrContains(pins, piece)) ms *= factor;
      tried.push_back(pins);
      if (result.candidate_ms_size() == 0) return;
      result.set_baseline_ms(0, best_ms);
      result.set_candidate_ms(0, ms);
      best_ms = std::min(best_ms, ms);
    };
  }

  v1::Job finished(const std::string& id) {
    bench.runAll("w");
    v1::Job job = bench.job(id);
    EXPECT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
    return job;
  }

  static std::vector<std::string> taken(const v1::Job& job) {
    std::vector<std::string> places;
    for (const v1::TuneResult::ChoiceTrial& trial : job.tune_result().choices())
      if (trial.taken()) places.push_back(trial.open().choices(0).place());
    return places;
  }

  /// Records of choices: speed by summary, 0 for a failure.
  std::map<std::string, double> filed() {
    std::map<std::string, double> speeds;
    EXPECT_TRUE(bench.store
                    ->read([&](storage::Reader& reader) -> absl::Status {
                      storage::ListQuery query;
                      query.page_size = 100;
                      query.filter = "mode = choice";
                      TESSERA_ASSIGN_OR_RETURN(const auto page, reader.listRecords(query));
                      for (const v1::TuningRecord& record : page.items) {
                        const std::string& summary = record.workload_summary();
                        speeds[summary.substr(summary.find(": ") + 2)] = record.outcome() == v1::TuningRecord::PASSED
                                                                             ? record.baseline_ms() / record.median_ms()
                                                                             : 0;
                      }
                      return absl::OkStatus();
                    })
                    .ok());
    return speeds;
  }

  SchedulerFixture bench;
  int requests = 0;
  std::vector<std::string> tried;  // pins of measured models
  double best_ms = 1;
};

TEST_F(Choices, WhatIsFasterIsTakenAndTheNextIsTriedOnTopOfIt) {
  factors({{"\"first\"", 0.9}, {"\"second\"", 1.2}, {"\"third\"", 0.8}});
  const v1::Job job = finished(tune({"first", "second", "third"}));
  EXPECT_THAT(taken(job), ElementsAre("first", "third"));
  const auto& second = job.tune_result().choices(1);
  EXPECT_THAT(second.untaken(), HasSubstr("times as fast"));
  EXPECT_NEAR(second.ms() / second.before_ms(), 1.2, 1e-9) << "compared with the best before, not with the default";
  ASSERT_GE(tried.size(), 3u);
  EXPECT_THAT(tried[2], HasSubstr("\"first\""));
  EXPECT_THAT(tried[2], Not(HasSubstr("\"second\"")));
  const std::string pins = bench.get(job.tune_result().pins());
  EXPECT_THAT(pins, HasSubstr("choice algorithm \"first\" \"winograd-2x2\""));
  EXPECT_THAT(pins, HasSubstr("\"third\""));
  EXPECT_THAT(pins, Not(HasSubstr("\"second\"")));
  EXPECT_NE(job.tune_result().artifact_id(), job.tune_result().default_artifact_id());
}

TEST_F(Choices, WhatWasMeasuredIsFiledAndTheNextJobBeginsWithIt) {
  factors({{"\"good\"", 0.8}, {"\"bad\"", 1.25}});
  EXPECT_THAT(taken(finished(tune({"bad", "good"}, 1))), ElementsAre("good"));
  EXPECT_THAT(filed(), testing::UnorderedElementsAre(testing::Pair("good", testing::DoubleNear(1.25, 1e-9)),
                                                     testing::Pair("bad", testing::DoubleNear(0.8, 1e-9))));
  best_ms = 1;
  tried.clear();
  bench.work.ambiguous_choices.clear();
  const v1::Job again = finished(tune({"bad", "good"}, 2));
  EXPECT_THAT(taken(again), ElementsAre("good"));
  const auto& choices = again.tune_result().choices();
  EXPECT_EQ(choices.at(0).open().choices(0).place(), "good") << "what is known to be faster is first";
  EXPECT_THAT(choices.at(1).untaken(), HasSubstr("0.800 times as fast, as record"));
  for (const std::string& pins : tried) EXPECT_THAT(pins, Not(HasSubstr("\"bad\""))) << "measured once more";
}

TEST_F(Choices, WhatAnEarlierCompilerMeasuredSlowerIsMeasuredAgain) {
  ASSERT_TRUE(bench.store
                  ->transact([&](storage::Transaction& tx) {
                    v1::TuningRecord record;
                    record.set_id("old");
                    record.set_workload_hash("hash of first");
                    record.set_target_name("test-target");
                    record.set_threads(1);
                    record.set_mode("choice");
                    record.set_outcome(v1::TuningRecord::PASSED);
                    record.set_median_ms(2);
                    record.set_baseline_ms(1);
                    record.set_compiler_version("an earlier one");
                    return tx.putRecord(record);
                  })
                  .ok());
  factors({{"\"first\"", 0.9}});
  EXPECT_THAT(taken(finished(tune({"first"}, 1))), ElementsAre("first"));
}

TEST_F(Choices, JobsOfTheSameModelTryThemOnce) {
  factors({{"\"first\"", 0.9}, {"\"second\"", 1.2}});
  const std::string one = tune({"first", "second"}, 1);
  bench.work.ambiguous_choices.clear();
  const std::string other = tune({"first", "second"}, 2);
  std::multiset<std::string> plans;
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    if (lease.task().has_plan() && lease.task().plan().spec().has_pins())
      plans.insert(bench.get(lease.task().plan().spec().pins()));
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  for (const std::string& id : {one, other}) {
    const v1::Job job = bench.job(id);
    ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
    EXPECT_THAT(taken(job), ElementsAre("first"));
  }
  const std::set<std::string> different(plans.begin(), plans.end());
  EXPECT_EQ(plans.size(), different.size()) << "planned once more";
  std::multiset<std::string> compared;
  for (const std::string& pins : tried)
    if (absl::StrContains(pins, "\"second\"")) compared.insert(pins);
  EXPECT_EQ(compared.size(), 1u) << "measured once more";
  EXPECT_THAT(filed(), testing::SizeIs(2));
}

TEST_F(Choices, OneJobsEndLeavesTheOtherWhatBothTry) {
  factors({{"\"first\"", 0.9}});
  const std::string one = tune({"first"}, 1);
  bench.work.ambiguous_choices.clear();
  const std::string other = tune({"first"}, 2);
  while (bench.job(one).progress().phase() != "choose" || bench.job(other).progress().phase() != "choose")
    ASSERT_TRUE(bench.finish("w", bench.lease("w")).ok());
  ASSERT_TRUE(bench.scheduler().cancelJob(one).ok());
  EXPECT_THAT(taken(finished(other)), ElementsAre("first"));
}

TEST_F(Choices, TreesAreSearchedOnTopOfThem) {
  factors({{"\"first\"", 0.9}, {"workload a", 0.5}});
  bench.work.trial = [](const std::string& workload, int number, v1::MeasureTaskResult& result) {
    result.set_candidate_ms(0, workload == "a" && number == 2 ? 0.5 : 1.5);
  };
  const v1::Job job = finished(tune({"first"}));
  const std::string pins = bench.get(job.tune_result().pins());
  EXPECT_THAT(pins, HasSubstr("\"first\""));
  EXPECT_THAT(pins, HasSubstr("workload a"));
  std::vector<std::string> phases;
  for (const v1::PhaseTime& phase : job.phases()) phases.push_back(phase.phase());
  EXPECT_THAT(phases, testing::Contains("choose"));
}

TEST_F(Choices, ASlotThatWouldIdleSearchesTreesMeanwhile) {
  bench.registerWorker("other");  // only adds a slot
  factors({{"\"first\"", 1.1}, {"\"second\"", 1.1}, {"workload a", 0.5}});
  bench.work.trial = [](const std::string& workload, int number, v1::MeasureTaskResult& result) {
    result.set_candidate_ms(0, workload == "a" && number == 1 ? 0.5 : 1.5);
  };
  const std::string id = tune({"first", "second"});
  int beside = 0, most = 0;
  std::map<std::string, int> trials;
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    const bool choosing = bench.job(id).progress().phase() == "choose";
    if (lease.task().has_search() && choosing) {
      ++beside;
      most = std::max(most, lease.task().search().wanted());
    }
    if (!lease.task().measure().workload_hash().empty()) {
      ++trials[lease.task().measure().workload_hash()];
    }
    ASSERT_TRUE(bench.finish("w", lease).ok());
    if (choosing && (lease.task().has_search() || !lease.task().measure().workload_hash().empty())) {
      EXPECT_EQ(bench.job(id).progress().phase(), "choose") << "the job shows what it chooses";
    }
  }
  EXPECT_GE(beside, 1);
  EXPECT_LE(most, 2) << "what is chosen waits for no more";
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_THAT(taken(job), ElementsAre());
  EXPECT_EQ(job.tune_result().trials(), 10) << "five of each, though they began twice";
  EXPECT_EQ(trials["b"], 5);
  EXPECT_EQ(trials["a"], 6) << "and the best of them once more";
  EXPECT_THAT(bench.get(job.tune_result().pins()), HasSubstr("workload a"));
}

TEST_F(Choices, WithOneSlotTheyComeFirst) {
  factors({{"\"first\"", 1.1}});
  const std::string id = tune({"first"});
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    EXPECT_FALSE(lease.task().has_search() && bench.job(id).progress().phase() == "choose");
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  EXPECT_EQ(bench.job(id).tune_result().trials(), 10);
}

TEST_F(Choices, WhatTheyChangeIsSearchedAnewAndWhatTheyLeaveGoesOn) {
  bench.registerWorker("other");
  factors({{"\"first\"", 0.9}, {"\"second\"", 1.1}});
  bench.work.pinned_units = [](const std::string& pins) {
    return absl::StrContains(pins, "\"first\"") ? "a c" : "a b";
  };
  bench.work.trial = [](const std::string& workload, int number, v1::MeasureTaskResult& result) {
    result.set_candidate_ms(0, workload != "a" && number == 1 ? 0.5 : 1.5);
  };
  const std::string id = tune({"second", "first", "third"});
  std::map<std::string, int> trials;
  std::set<std::string> before;  // searched while choices were tried
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    const std::string workload = lease.task().measure().workload_hash();
    if (!workload.empty()) {
      ++trials[workload];
      if (bench.job(id).progress().phase() == "choose") before.insert(workload);
    }
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  EXPECT_FALSE(before.empty());
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  ASSERT_THAT(taken(job), testing::Contains("first"));
  std::vector<std::string> workloads;
  for (const v1::TuneResult::Workload& workload : job.tune_result().workloads()) workloads.push_back(workload.hash());
  EXPECT_THAT(workloads, testing::UnorderedElementsAre("a", "c"));
  EXPECT_EQ(trials["a"], 5);
  EXPECT_EQ(trials["c"], 6) << "and the best of them once more";
  const std::string pins = bench.get(job.tune_result().pins());
  EXPECT_THAT(pins, HasSubstr("workload c"));
  EXPECT_THAT(pins, Not(HasSubstr("workload b")));
}

TEST_F(Choices, WhatIsNotFasterTogetherIsDroppedAndTheSearchBeginsWithTheDefault) {
  bench.work.model = [](const std::string& pins, v1::MeasureTaskResult& result) {
    if (result.candidate_ms_size() == 0) return;
    const bool both = absl::StrContains(pins, "one") && absl::StrContains(pins, "two");
    static int both_seen = 0;
    result.set_candidate_ms(0, both && ++both_seen > 1 ? 1.3 : 0.9);
  };
  const v1::Job job = finished(tune({"one", "two"}, 1));
  EXPECT_THAT(taken(job), ElementsAre());
  EXPECT_THAT(job.tune_result().choices(0).untaken(), HasSubstr("with all of them the model was not faster"));
  EXPECT_EQ(job.tune_result().artifact_id(), job.tune_result().default_artifact_id());
  EXPECT_THAT(filed(), testing::IsEmpty()) << "each seemed faster, and together they were not";
}

TEST_F(Choices, WhatCannotBeCompiledOrIsWrongIsLeft) {
  const std::string id = tune({"refused", "wrong", "right"}, 1);
  bench.work.model = [](const std::string& pins, v1::MeasureTaskResult& result) {
    if (absl::StrContains(pins, "wrong")) result.set_wrong("off by 7");
  };
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    const v1::CompileSpec& compile = lease.task().plan().spec();
    const bool refused = compile.has_pins() && absl::StrContains(bench.get(compile.pins()), "refused");
    ASSERT_TRUE(
        bench.report("w", lease, refused ? failedResult(v1::Failure::INVALID_SCHEDULE) : bench.work.run(lease.task()))
            .ok());
  }
  const v1::Job job = bench.job(id);
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.failure().message();
  EXPECT_THAT(taken(job), ElementsAre("right"));
  EXPECT_THAT(job.tune_result().choices(0).untaken(), HasSubstr("could not be compiled"));
  EXPECT_THAT(job.tune_result().choices(1).untaken(), HasSubstr("off by 7"));
  const std::map<std::string, double> speeds = filed();
  EXPECT_EQ(speeds.at("refused"), 0);
  EXPECT_EQ(speeds.at("wrong"), 0);
  EXPECT_GT(speeds.at("right"), 1);
}

TEST_F(Choices, OnlySoManyAreTriedAndNoneWhoseGainCannotBeSeen) {
  bench.work.ambiguous_choices = {openChoice("tiny", 0.001)};
  const v1::Job job = finished(tune({"first", "second", "third"}, 1, 2));
  EXPECT_THAT(taken(job), ElementsAre("first", "second"));
  EXPECT_THAT(job.tune_result().choices(0).untaken(), HasSubstr("too little for a compilation"));
  EXPECT_THAT(job.tune_result().choices(3).untaken(), HasSubstr("not among the 2"));
}

TEST_F(Choices, WhatIsFasterItselfAndSlowsTheRestIsLeft) {
  bench.work.model = [](const std::string& pins, v1::MeasureTaskResult& result) {
    if (absl::StrContains(pins, "slows")) result.set_candidate_ms(0, 1.5);
  };
  bench.work.own = [](v1::MeasureTaskResult& result) { result.set_candidate_own_ms(0, 0.5); };
  const v1::Job job = finished(tune({"slows"}, 1));
  EXPECT_THAT(taken(job), ElementsAre());
  EXPECT_THAT(job.tune_result().choices(0).untaken(), HasSubstr("2.000 times as fast, but others slower"));
}

TEST_F(Choices, ARequestMayAskForNone) {
  const v1::Job job = finished(tune({"first"}, 1, 0));
  EXPECT_THAT(taken(job), ElementsAre());
  EXPECT_EQ(job.tune_result().choices(0).untaken(), "the request asks for none");
}

TEST_F(Choices, AThirdOfTheBudgetIsTheirsAndTheSearchHasTheRest) {
  const std::string id = tune({"first", "second"}, 1);
  while (bench.job(id).progress().phase() != "choose") {
    const v1::Lease lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty());
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  bench.clock.advance(int64_t{101} * 1'000'000);  // of a budget of five minutes
  bench.registerWorker("w");
  const v1::Job job = finished(id);
  EXPECT_THAT(job.tune_result().choices(1).untaken(), HasSubstr("was used up"));
  EXPECT_EQ(job.tune_result().trials(), 2);
}

TEST_F(Choices, ABudgetThatIsUsedUpAlreadyLeavesThemAll) {
  bench.work.ambiguous_choices = {openChoice("first")};
  v1::CreateJobRequest request = bench.request("m", "m", "a");
  *request.mutable_tune()->mutable_compile() = bench.request("m", "m", "a").compile();
  request.mutable_tune()->set_budget_us(1);
  const v1::Job job = finished(bench.create(request)->id());
  EXPECT_THAT(job.tune_result().choices(0).untaken(), HasSubstr("was used up"));
  EXPECT_EQ(job.tune_result().artifact_id(), job.tune_result().default_artifact_id());
}

TEST_F(Choices, AServerThatIsKilledGoesOnWithTheNext) {
  factors({{"\"first\"", 0.9}, {"\"second\"", 0.9}});
  const std::string id = tune({"first", "second"}, 1);
  bool restarted = false;
  for (v1::Lease lease = bench.lease("w"); !lease.task_id().empty(); lease = bench.lease("w")) {
    ASSERT_TRUE(bench.finish("w", lease).ok());
    if (restarted || bench.job(id).progress().done() != 1 || bench.job(id).progress().phase() != "choose") continue;
    restarted = true;
    bench.restart();
    bench.registerWorker("w");
  }
  EXPECT_TRUE(restarted);
  EXPECT_THAT(taken(finished(id)), ElementsAre("first", "second"));
}

TEST_F(Choices, ACancelledJobHasTheDefault) {
  const std::string id = tune({"first", "second"});
  while (bench.job(id).progress().done() != 1 || bench.job(id).progress().phase() != "choose") {
    const v1::Lease lease = bench.lease("w");
    ASSERT_FALSE(lease.task_id().empty());
    ASSERT_TRUE(bench.finish("w", lease).ok());
  }
  ASSERT_TRUE(bench.scheduler().cancelJob(id).ok());
  const v1::Job job = bench.job(id);
  EXPECT_EQ(job.state(), v1::Job::CANCELLED);
  EXPECT_EQ(job.tune_result().artifact_id(), job.tune_result().default_artifact_id());
  EXPECT_FALSE(job.tune_result().has_pins());
}

}  // namespace
}  // namespace tessera::server
