// The properties of trees that everything else stands on: one tree, one object, through text as well; every field
// counts or is refused; what is accepted computes the right thing.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/codegen/loaded_unit.h"
#include "compiler/codegen/testing/check_workload.h"
#include "compiler/codegen/testing/tree_mutations.h"
#include "compiler/codegen/testing/tree_workloads.h"
#include "compiler/codegen/testing/workload_text.h"
#include "compiler/schedule/text.h"
#include "proto/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

using google::protobuf::util::MessageDifferencer;

/// Code before it is lowered, or the refusal.
absl::StatusOr<std::string> emitted(v1::BuildUnit& unit, const v1::Schedule& schedule) {
  *unit.mutable_schedule() = schedule;
  std::string text;
  if (absl::Status status = checkSchedule(unit, &text); !status.ok()) return status;
  return text;
}

class Trees : public ::testing::TestWithParam<unsigned> {};

TEST_P(Trees, ThroughTextGiveTheSameObject) {
  const TreeWorkload workload = treeWorkload(GetParam());
  v1::BuildUnit unit = unitOf(workload);
  auto schedule = defaultSchedule(unit, workload.request);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  const std::string text = printSchedule(*schedule);
  auto parsed = parseSchedule(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message() << "\n" << text;
  ASSERT_TRUE(MessageDifferencer::Equals(*schedule, *parsed)) << text << printSchedule(*parsed);
  *unit.mutable_schedule() = *schedule;
  auto direct = buildObject(unit);
  *unit.mutable_schedule() = *parsed;
  auto replayed = buildObject(unit);
  ASSERT_TRUE(direct.ok()) << direct.status().message() << "\n" << text;
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  EXPECT_EQ(direct->SerializeAsString(), replayed->SerializeAsString()) << text;
}

TEST_P(Trees, HaveNoFieldWithoutEffect) {
  constexpr size_t kMostTried = 150;
  std::mt19937 random(1000 + GetParam());
  const TreeWorkload workload = treeWorkload(1000 + GetParam());
  v1::BuildUnit unit = unitOf(workload);
  auto schedule = defaultSchedule(unit, workload.request);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  auto before = emitted(unit, *schedule);
  ASSERT_TRUE(before.ok()) << before.status().message() << "\n" << printSchedule(*schedule);
  Mutations mutations(*schedule, random);
  std::vector<size_t> places(mutations.count());
  std::iota(places.begin(), places.end(), size_t{0});
  std::ranges::shuffle(places, random);
  places.resize(std::min(places.size(), kMostTried));
  int followed = 0, refused = 0;
  std::vector<v1::Schedule> accepted;
  for (const size_t place : places) {
    const auto [changed, what] = mutations.at(place);
    auto after = emitted(unit, changed);
    if (after.ok()) {
      ++followed;
      accepted.push_back(changed);
      EXPECT_FALSE(*before == *after) << workload.name << ": " << what << " was ignored\n"
                                      << printSchedule(*schedule) << "\nchanged:\n"
                                      << printSchedule(changed) << changed.ShortDebugString();
      continue;
    }
    ++refused;
    const v1::Failure failure = failureOf(after.status());
    EXPECT_TRUE(failure.reason() == v1::Failure::INVALID_SCHEDULE || failure.reason() == v1::Failure::INVALID_INPUT)
        << workload.name << ": " << what << ": " << after.status();
  }
  RecordProperty("followed", followed);
  RecordProperty("refused", refused);
  EXPECT_GT(refused, 0);
  // What was accepted computes what the workload says.
  for (size_t i = 0; i < std::min<size_t>(accepted.size(), 3); ++i)
    checkTree(workload, accepted[random() % accepted.size()], GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Trees, ::testing::Range(0U, 52U));

TEST(Tree, RefusalsNameThePathAndWhatIsAccepted) {
  WorkloadText text;
  const Tensor c = text.named("matmul", {text.argument({48, 40}), text.argument({40, 64})}, text.fill({48, 64}, "0.0"));
  v1::BuildUnit unit = hostUnit(text.finish({c}));
  auto schedule = defaultSchedule(unit);
  ASSERT_TRUE(schedule.ok());
  v1::Schedule changed = *schedule;
  changed.mutable_phases(changed.phases_size() - 1)->mutable_kernel()->set_vector_loop("i7");
  *unit.mutable_schedule() = changed;
  const auto built = buildObject(unit);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(failureOf(built.status()).attribute(), std::to_string(changed.phases_size() - 1));
  EXPECT_EQ(failureOf(built.status()).found(), "i7");
  EXPECT_NE(built.status().message().find("i0 (48), i1 (64), r2 (40)"), std::string::npos) << built.status();
}

// Three nests of one phase that have nothing to do with each other: products of other shapes and a sum.
std::string separateNests() {
  WorkloadText text;
  const Tensor a = text.named("matmul", {text.argument({37, 41}), text.argument({41, 67})}, text.fill({37, 67}, "0.0"));
  const Tensor b = text.named("matmul", {text.argument({5, 13}), text.argument({13, 31})}, text.fill({5, 31}, "0.0"));
  const Tensor c = text.generic({text.argument({23, 71})}, {"d0, d1", "d0"}, text.fill({23}, "0.0"), 2, "pr",
                                "%r = arith.addf %i0, %o : f32");
  return text.finish({a, b, c});
}

TEST(Tree, NestsOfAPhaseRunSideBySideOnPartsOfTheUnits) {
  const std::string ir = separateNests();
  const v1::KernelInfo one_after_another = checkWorkload(ir, {.seed = 1});
  ASSERT_EQ(one_after_another.phases_size(), 1);
  std::string text;
  const auto sideBySide = [&](v1::Schedule& schedule) {
    ASSERT_EQ(schedule.phases(0).join(), v1::Tile::SEQ);
    int64_t tiles = 0;
    for (const v1::Tile& leaf : schedule.phases(0).children()) tiles += leaf.loops_size();
    ASSERT_GT(tiles, 0);
    schedule.mutable_phases(0)->set_join(v1::Tile::PARA);
    text = printSchedule(schedule);
  };
  for (const unsigned seed : {1U, 2U, 4U, 5U}) {
    const v1::KernelInfo info = checkWorkload(ir, {.seed = seed, .edit = sideBySide});
    EXPECT_NE(text.find("[] Para"), std::string::npos) << text;
    ASSERT_EQ(info.phases_size(), 1);
    EXPECT_GT(info.phases(0).grid(), one_after_another.phases(0).grid()) << "points of all nests, not of the longest";
    EXPECT_GE(info.phases(0).grid(), 3);
  }
  // What is followed is recorded: the tree of the phases that follow it is the same one.
  auto parsed = parseSchedule(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->phases(0).join(), v1::Tile::PARA);
}

TEST(Tree, JoinsThatNobodyFollowsAreRefusedWithTheirPath) {
  v1::BuildUnit unit = hostUnit(separateNests());
  auto schedule = defaultSchedule(unit);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  schedule->mutable_phases(0)->set_join(v1::Tile::PIPE);
  *unit.mutable_schedule() = *schedule;
  const absl::Status status = checkSchedule(unit);
  EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_SCHEDULE) << status;
  EXPECT_EQ(failureOf(status).attribute(), "0");
  EXPECT_NE(status.message().find("[] Seq or [] Para"), std::string::npos) << status;
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
