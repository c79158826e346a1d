// Compilations that use tuning records.
#include "server/workflows/knowledge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/support/status_macros.h"
#include "server/testing/scheduler_bench.h"

namespace tessera::server {
namespace {

using testing::HasSubstr;

/// A record of workload "a". Its tree is identified by `bits`.
v1::TuningRecord record(const std::string& id, int bits, double speed, int64_t time_us) {
  v1::TuningRecord result;
  result.set_id(id);
  result.set_workload_hash("a");
  result.set_target_name("test-target");
  result.set_threads(1);
  result.set_mode("search");
  result.set_outcome(v1::TuningRecord::PASSED);
  result.set_median_ms(1 / speed);
  result.set_baseline_ms(1);
  result.mutable_schedule()->set_vector_bits(bits);
  result.set_create_time_us(time_us);
  return result;
}

class KnowledgeTest : public testing::Test {
 protected:
  KnowledgeTest() { bench_.registerWorker("w"); }

  void file(const v1::TuningRecord& record) {
    ASSERT_TRUE(bench_.store->transact([&](storage::Transaction& tx) { return tx.putRecord(record); }).ok());
  }

  /// Compiles "a b"; returns the pins of its last plan.
  std::string compile(const std::string& id, v1::Knowledge::Mode mode, int64_t until_us = 0) {
    v1::CreateJobRequest request = bench_.request(id, "m", "a b");
    request.mutable_compile()->mutable_options()->mutable_knowledge()->set_mode(mode);
    request.mutable_compile()->mutable_options()->mutable_knowledge()->set_until_us(until_us);
    const std::string job = bench_.create(request)->id();
    std::string pins;
    tasks_ = 0;
    for (v1::Lease lease = bench_.lease("w"); !lease.task_id().empty(); lease = bench_.lease("w"), ++tasks_) {
      const v1::CompileSpec& spec = lease.task().plan().spec();
      if (lease.task().kind() == v1::PLAN) pins = spec.has_pins() ? bench_.get(spec.pins()) : "";
      if (spec.has_pins()) EXPECT_EQ(spec.pin_use(), v1::SUGGESTIONS);
      EXPECT_TRUE(bench_.finish("w", lease).ok());
    }
    EXPECT_EQ(bench_.job(job).state(), v1::Job::SUCCEEDED) << bench_.job(job).failure().message();
    artifact_ = bench_.job(job).compile_result().artifact_id();
    return pins;
  }

  SchedulerFixture bench_;
  std::string artifact_;  // of the last compilation
  int tasks_ = 0;         // of the last compilation
};

TEST_F(KnowledgeTest, ACompilationTakesTheFastestRightTree) {
  EXPECT_EQ(compile("none", v1::Knowledge::NONE), "");
  const std::string by_default = artifact_;
  EXPECT_EQ(compile("nothing is known", v1::Knowledge::NEWEST), "");
  EXPECT_EQ(artifact_, by_default);
  EXPECT_EQ(tasks_, 1) << "the plan told that the artifact is there";

  file(record("slow", 64, 1.2, 10));
  file(record("fast", 128, 1.5, 20));
  v1::TuningRecord wrong = record("wrong", 256, 9, 20);
  wrong.set_outcome(v1::TuningRecord::WRONG_RESULT);
  file(wrong);
  v1::TuningRecord elsewhere = record("elsewhere", 512, 9, 20);
  elsewhere.set_target_hash("another chip");
  file(elsewhere);
  EXPECT_THAT(compile("newest", v1::Knowledge::NEWEST), HasSubstr("vectors 128"));
  const std::string known = artifact_;
  EXPECT_NE(known, by_default);
  EXPECT_EQ(compile("not asked for", v1::Knowledge::NONE), "");
  EXPECT_EQ(artifact_, by_default);
  (void)compile("again", v1::Knowledge::NEWEST);
  EXPECT_EQ(artifact_, known);
  EXPECT_EQ(tasks_, 1) << "equal records, equal key";
}

TEST_F(KnowledgeTest, ASnapshotStaysAsItWas) {
  file(record("early", 64, 1.2, 10));
  EXPECT_THAT(compile("first", v1::Knowledge::SNAPSHOT, 15), HasSubstr("vectors 64"));
  const std::string first = artifact_;
  file(record("late", 128, 2, 20));
  EXPECT_THAT(compile("newest", v1::Knowledge::NEWEST), HasSubstr("vectors 128"));
  EXPECT_NE(artifact_, first);
  (void)compile("second", v1::Knowledge::SNAPSHOT, 15);
  EXPECT_EQ(artifact_, first);
  EXPECT_EQ(compile("before all", v1::Knowledge::SNAPSHOT, 5), "");
}

TEST_F(KnowledgeTest, WhatWasConfirmedGoesBeforeWhatWasLuckyOnce) {
  file(record("lucky", 64, 3, 10));
  v1::TuningRecord confirmed = record("confirmed", 128, 1.3, 10);
  confirmed.set_mode("confirmed");
  file(confirmed);
  EXPECT_THAT(compile("newest", v1::Knowledge::NEWEST), HasSubstr("vectors 128"));
}

TEST_F(KnowledgeTest, ATreeThatWasNotConfirmedIsNotTakenForItsLuckyTrial) {
  file(record("lucky", 64, 3, 10));
  v1::TuningRecord refuted = record("refuted", 64, 0.98, 11);
  refuted.set_mode("confirmed");
  file(refuted);
  v1::TuningRecord wrong = record("wrong", 128, 2, 11);
  file(record("was right once", 128, 2, 10));
  wrong.set_mode("confirmed");
  wrong.set_outcome(v1::TuningRecord::WRONG_RESULT);
  wrong.clear_median_ms();
  file(wrong);
  EXPECT_EQ(compile("none stands", v1::Knowledge::NEWEST), "");
  file(record("another", 256, 1.2, 12));
  EXPECT_THAT(compile("unconfirmed", v1::Knowledge::NEWEST), HasSubstr("vectors 256"));
  v1::TuningRecord again = record("again", 64, 1.1, 13);
  again.set_mode("confirmed");
  file(again);
  EXPECT_THAT(compile("the newest confirmation counts", v1::Knowledge::NEWEST), HasSubstr("vectors 64"));
}

TEST_F(KnowledgeTest, AGainWithinTheNoiseOfOneTrialIsNone) {
  v1::TuningRecord noisy = record("noisy", 64, 1.2, 10);
  noisy.set_host_noise(0.05);
  noisy.set_mad_ms(0.03 * noisy.median_ms());
  file(noisy);
  EXPECT_EQ(compile("within", v1::Knowledge::NEWEST), "");
  v1::TuningRecord clear = record("clear", 128, 1.3, 11);
  clear.set_host_noise(0.05);
  clear.set_mad_ms(0.03 * clear.median_ms());
  file(clear);
  EXPECT_THAT(compile("beyond", v1::Knowledge::NEWEST), HasSubstr("vectors 128"));
}

TEST_F(KnowledgeTest, ARecordWithoutATreeIsNotTried) {
  v1::TuningRecord empty = record("empty", 64, 2, 10);
  empty.mutable_schedule()->Clear();
  file(empty);
  v1::Target target;
  target.set_name("test-target");
  ASSERT_TRUE(bench_.store
                  ->read([&](storage::Reader& reader) -> absl::Status {
                    auto found = warmStartCandidates(reader, {kDefaultProject, "a", target, 1}, {});
                    if (found.ok()) EXPECT_EQ(found->trees_size(), 0);
                    return found.status();
                  })
                  .ok());
  EXPECT_EQ(compile("no tree", v1::Knowledge::NEWEST), "");
}

TEST_F(KnowledgeTest, ASearchFirstTriesItsOwnRecordsThenOtherChipsThenTheNearestShapes) {
  const auto similar = [](const std::string& id, int bits, const std::string& summary, double speed) {
    v1::TuningRecord other = record(id, bits, speed, 10);
    other.set_workload_hash("hash of " + id);
    other.set_workload_summary(summary);
    return other;
  };
  v1::Target target;
  target.set_name("test-target");
  for (int bits = 1; bits <= 6; ++bits) file(record("own " + std::to_string(bits), bits, 1 + 0.1 * bits, 10));
  v1::TuningRecord elsewhere = record("elsewhere", 20, 3, 10);
  elsewhere.set_target_name("another");
  elsewhere.set_target_hash("another chip");
  file(elsewhere);
  file(similar("far", 30, "conv2d 3x3 s1 64->64 14x14 + relu", 9));
  file(similar("near", 31, "conv2d 3x3 s1 64->64 56x60 + relu", 1.2));
  file(similar("other operators", 32, "conv2d 3x3 s1 64->64 56x56 + add", 5));
  file(similar("no faster", 33, "conv2d 3x3 s1 64->64 56x56 + relu", 1.001));
  v1::TuningRecord abroad = similar("abroad", 34, "conv2d 3x3 s1 64->64 56x56 + relu", 4);
  abroad.set_target_hash("another chip");
  file(abroad);
  for (v1::TuningRecord others :
       {record("others own", 40, 9, 10), similar("others near", 41, "conv2d 3x3 s1 64->64 56x56 + relu", 9)}) {
    others.set_project("others");
    file(others);
  }
  v1::KnownTrees known;
  ASSERT_TRUE(bench_.store
                  ->read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(known, warmStartCandidates(reader, {kDefaultProject, "a", target, 1},
                                                                        {{}, "conv2d 3x3 s1 64->64 56x56 + relu"}));
                    return absl::OkStatus();
                  })
                  .ok());
  std::vector<int> tried, own, rest;
  for (const v1::KnownTrees::Tree& tree : known.trees()) {
    (tree.try_first() ? tried : rest).push_back(tree.schedule().vector_bits());
    if (tree.same_workload()) own.push_back(tree.schedule().vector_bits());
  }
  EXPECT_THAT(tried, testing::ElementsAre(6, 5, 4, 3, 20, 31, 30, 34));
  EXPECT_THAT(rest, testing::ElementsAre(2, 1)) << "to learn from";
  EXPECT_THAT(own, testing::ElementsAre(6, 5, 4, 3, 20, 2, 1));
  EXPECT_NEAR(known.trees(0).speed(), 1.6, 1e-9);
}

TEST_F(KnowledgeTest, AChoiceThatWasMeasuredFasterIsTakenAndTreesAreOfWhatItMakes) {
  const auto openChoice = [](const std::string& place) {
    v1::AmbiguousChoice open;
    open.set_hash("question " + place);
    for (const char* where : {"", "#2"}) {
      v1::Choice& pin = *open.add_choices();
      pin.set_kind("algorithm");
      pin.set_place(place + where);
      pin.set_choice("winograd-2x2");
    }
    return open;
  };
  const auto answer = [](const std::string& id, const std::string& place, double speed, int64_t time_us) {
    v1::TuningRecord result = record(id, 0, speed, time_us);
    result.set_workload_hash("question " + place);
    result.clear_schedule();
    result.set_mode("choice");
    return result;
  };
  bench_.work.ambiguous_choices = {openChoice("slower"), openChoice("faster"), openChoice("unknown"),
                                   openChoice("noisy"), openChoice("wrong")};
  EXPECT_EQ(compile("nothing is known", v1::Knowledge::NEWEST), "");
  const std::string by_default = artifact_;
  file(answer("was slower then", "faster", 0.9, 10));
  file(answer("is faster now", "faster", 1.2, 20));
  file(answer("slower", "slower", 0.8, 20));
  v1::TuningRecord noisy = answer("noisy", "noisy", 1.05, 20);
  noisy.set_host_noise(0.1);
  file(noisy);
  v1::TuningRecord wrong = answer("wrong", "wrong", 3, 20);
  wrong.set_outcome(v1::TuningRecord::WRONG_RESULT);
  file(wrong);
  const std::string taken =
      "choice algorithm \"faster\" \"winograd-2x2\"\nchoice algorithm \"faster#2\" "
      "\"winograd-2x2\"\n";
  EXPECT_EQ(compile("a choice", v1::Knowledge::NEWEST), taken);
  EXPECT_NE(artifact_, by_default);
  file(record("tree", 128, 1.5, 30));
  const std::string both = compile("a choice and a tree", v1::Knowledge::NEWEST);
  EXPECT_THAT(both, HasSubstr(taken));
  EXPECT_THAT(both, HasSubstr("vectors 128"));
  EXPECT_EQ(compile("as it was", v1::Knowledge::SNAPSHOT, 15), "") << "the answer of that time";
  EXPECT_EQ(artifact_, by_default);
}

TEST_F(KnowledgeTest, ASearchFindsNeighboursByTheirShapeAndOlderOnesByTheirSummary) {
  const auto shapeOf = [](const std::string& operators, const std::vector<int64_t>& dimensions) {
    v1::WorkloadShape shape;
    shape.set_operators(operators);
    shape.mutable_dimensions()->Assign(dimensions.begin(), dimensions.end());
    return shape;
  };
  const auto similar = [&](int bits, const v1::WorkloadShape& shape, const std::string& summary) {
    v1::TuningRecord other = record("record " + std::to_string(bits), bits, 2, 10);
    other.set_workload_hash("hash of " + std::to_string(bits));
    *other.mutable_workload_shape() = shape;
    other.set_workload_summary(summary);
    file(other);
  };
  similar(1, shapeOf("matmul + relu", {64, 64, 640}), "said otherwise");
  similar(2, shapeOf("matmul + relu", {64, 64, 65}), "said otherwise");
  similar(3, shapeOf("matmul + add", {64, 64, 64}), "matmul 64x64x64 + relu");
  similar(4, shapeOf("matmul + relu", {64, 64}), "matmul 64x64x64 + relu");
  similar(5, {}, "matmul 64x64x70 + relu");
  v1::Target target;
  target.set_name("test-target");
  v1::KnownTrees known;
  const WorkloadForm form{shapeOf("matmul + relu", {64, 64, 64}), "matmul 64x64x64 + relu"};
  ASSERT_TRUE(bench_.store
                  ->read([&](storage::Reader& reader) -> absl::Status {
                    TESSERA_ASSIGN_OR_RETURN(known,
                                             warmStartCandidates(reader, {kDefaultProject, "a", target, 1}, form));
                    return absl::OkStatus();
                  })
                  .ok());
  std::vector<int> tried;
  for (const v1::KnownTrees::Tree& tree : known.trees()) tried.push_back(tree.schedule().vector_bits());
  EXPECT_THAT(tried, testing::ElementsAre(2, 5, 1));
}

TEST(ShapeDistance, ComparesNumbersOfTheSameOperators) {
  const auto distance = [](const std::string& one, const std::string& other) {
    return shapeDistance({{}, one}, {{}, other});
  };
  EXPECT_EQ(distance("matmul 64x128", "matmul 64x128"), 0);
  EXPECT_LT(*distance("matmul 64x128", "matmul 64x160"), *distance("matmul 64x128", "matmul 8x128"));
  EXPECT_FALSE(distance("matmul 64x128", "matmul 64x128x2"));
  EXPECT_FALSE(distance("conv2d 3x3", "conv1d 3x3")) << "a digit of a name is no number";
}

}  // namespace
}  // namespace tessera::server
