// The properties of trees that everything else stands on: one tree, one object, through text as well; every field
// counts or is refused; what is accepted computes the right thing.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/codegen/loaded_unit.h"
#include "compiler/codegen/testing/chain_text.h"
#include "compiler/codegen/testing/tree_mutations.h"
#include "compiler/schedule/text.h"
#include "proto/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

using google::protobuf::util::MessageDifferencer;

struct Workload {
  std::string name, ir;
  ScheduleRequest request;
};

int64_t pick(std::mt19937& random, std::initializer_list<int64_t> values) {
  return values.begin()[random() % values.size()];
}

Workload product(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = pick(random, {1, 7, 40, 61}), n = pick(random, {5, 33, 64, 130}),
                k = pick(random, {3, 16, 41, 700});
  const bool transposed = random() % 2 == 0;
  Tensor c = text.generic({text.argument({m, k}), text.argument(transposed ? std::vector{n, k} : std::vector{k, n})},
                          {"d0, d2", transposed ? "d1, d2" : "d2, d1", "d0, d1"}, text.fill({m, n}, "0.0"), 3, "ppr",
                          kMultiplyAdd);
  if (random() % 2 == 0)
    c = text.generic({c, text.argument({n})}, {"d0, d1", "d1", "d0, d1"}, text.empty({m, n}), 2, "",
                     "%r = arith.addf %i0, %i1 : f32");
  return {"product", text.finish({relu(text, c)}), {}};
}

Workload elementwise(std::mt19937& random) {
  WorkloadText text;
  const int64_t a = pick(random, {1, 3, 8, 17}), b = pick(random, {2, 31, 64, 100});
  const Tensor x = text.argument({a, b});
  const Tensor turned =
      text.generic({x}, {"d1, d0", "d0, d1"}, text.empty({b, a}), 2, "", "%r = arith.mulf %i0, %i0 : f32");
  const Tensor sum =
      text.generic({turned}, {"d0, d1", "d0"}, text.fill({b}, "0.0"), 2, "pr", "%r = arith.addf %i0, %o : f32");
  return {"elementwise", text.finish({turned, sum}), {}};
}

Workload rows(std::mt19937& random) {
  WorkloadText text;
  const Tensor x = text.argument({2, pick(random, {9, 24, 130}), pick(random, {5, 40, 77})});
  return {"softmax", text.finish({softmax(text, x)}), {}};
}

Workload chain(std::mt19937& random) {
  WorkloadText text;
  const int64_t m = pick(random, {20, 37, 64}), n = pick(random, {24, 40}), k = pick(random, {8, 24});
  const Tensor scores = batchProduct(text, text.argument({2, m, k}), text.argument({2, k, n}));
  const bool with_softmax = random() % 3 != 0;
  const Tensor y =
      batchProduct(text, with_softmax ? softmax(text, scores) : relu(text, scores), text.argument({2, n, 20}));
  Tiling tiling{{"d0", 1}, {"d1", pick(random, {7, 8, 16})}};
  if (with_softmax && random() % 2 == 0) tiling.emplace_back("r0", 10);
  return {"chain", text.finish({y}), slicesOf(tiling)};
}

Workload window(std::mt19937& random) {
  WorkloadText text;
  const Tensor x = text.argument({1, pick(random, {12, 17}), 9, pick(random, {3, 16})});
  const Tensor first = relu(text, convolution(text, x, text.argument({3, 3, x.shape[3], 20}), 1));
  const Tensor y = convolution(text, first, text.argument({1, 1, 20, 17}), 0);
  return {"windows", text.finish({y}), random() % 2 == 0 ? slicesOf({{"d1", 4}}) : ScheduleRequest{}};
}

Workload randomWorkload(std::mt19937& random) {
  switch (random() % 5) {
    case 0:
      return product(random);
    case 1:
      return elementwise(random);
    case 2:
      return rows(random);
    case 3:
      return chain(random);
    default:
      return window(random);
  }
}

v1::BuildUnit unitOf(const Workload& workload) {
  v1::BuildUnit unit = hostUnit(workload.ir);
  for (int64_t bytes : {32 << 10, 1 << 20}) {
    v1::MemoryLevel* level = unit.add_memory();
    level->set_name(bytes == 32 << 10 ? "L1" : "L2");
    level->set_capacity_bytes(bytes);
  }
  return unit;
}

/// Code before it is lowered, or the refusal.
absl::StatusOr<std::string> emitted(v1::BuildUnit& unit, const v1::Schedule& schedule) {
  *unit.mutable_schedule() = schedule;
  std::string text;
  if (absl::Status status = checkSchedule(unit, &text); !status.ok()) return status;
  return text;
}

class Trees : public ::testing::TestWithParam<unsigned> {};

TEST_P(Trees, ThroughTextGiveTheSameObject) {
  std::mt19937 random(GetParam());
  const Workload workload = randomWorkload(random);
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
  std::mt19937 random(1000 + GetParam());
  const Workload workload = randomWorkload(random);
  v1::BuildUnit unit = unitOf(workload);
  auto schedule = defaultSchedule(unit, workload.request);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  auto before = emitted(unit, *schedule);
  ASSERT_TRUE(before.ok()) << before.status().message() << "\n" << printSchedule(*schedule);
  Mutations mutations(*schedule, random);
  int followed = 0, refused = 0;
  std::vector<v1::Schedule> accepted;
  for (size_t place = 0; place < mutations.count(); ++place) {
    const auto [changed, what] = mutations.at(place);
    auto after = emitted(unit, changed);
    if (after.ok()) {
      ++followed;
      accepted.push_back(changed);
      EXPECT_NE(*before, *after) << workload.name << ": " << what << " was ignored\n"
                                 << printSchedule(*schedule) << "\nchanged:\n"
                                 << printSchedule(changed) << changed.ShortDebugString();
      continue;
    }
    ++refused;
    const v1::Failure failure = failureOf(after.status());
    EXPECT_TRUE(failure.reason() == v1::Failure::INVALID_SCHEDULE || failure.reason() == v1::Failure::INVALID_INPUT)
        << what << ": " << after.status();
  }
  RecordProperty("followed", followed);
  RecordProperty("refused", refused);
  EXPECT_GT(refused, 0);
  // What was accepted computes what the workload says.
  for (size_t i = 0; i < std::min<size_t>(accepted.size(), 3); ++i) {
    const v1::Schedule& changed = accepted[random() % accepted.size()];
    CheckOptions options{
        .seed = GetParam() * 4, .request = workload.request, .edit = [&](v1::Schedule& its) { its = changed; }};
    options.adjust = [&](v1::BuildUnit& its) { *its.mutable_memory() = unit.memory(); };
    checkWorkload(workload.ir, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Trees, ::testing::Range(0U, 24U));

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
