// The properties of trees that other code relies on: one tree gives one object, also after printing and parsing; every
// field has an effect or is refused; an accepted tree computes the right results.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/tile_emulation.h"
#include "compiler/backends/cpu/testing/tree_mutations.h"
#include "compiler/backends/cpu/testing/tree_workloads.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "compiler/target/chip.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen::testing {
namespace {

using google::protobuf::util::MessageDifferencer;

/// The code before lowering, or the refusal.
absl::StatusOr<std::string> emitted(v1::BuildUnit& unit, const v1::Schedule& schedule) {
  *unit.mutable_schedule() = schedule;
  std::string text;
  TESSERA_RETURN_IF_ERROR(checkSchedule(unit, &text));
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

TEST_P(Trees, OfOtherFormsComputeTheSame) {
  const TreeWorkload workload = treeWorkload(GetParam());
  v1::BuildUnit unit = unitOf(workload);
  auto schedule = defaultSchedule(unit, workload.request);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  *unit.mutable_schedule() = *schedule;
  std::set<std::string> known = {printSchedule(*schedule)};
  for (const v1::Schedule& form : seedSchedules(unit)) {
    EXPECT_TRUE(known.insert(printSchedule(form)).second) << "twice:\n" << printSchedule(form);
    checkTree(workload, form, GetParam());
  }
}

TEST_P(Trees, HaveNoFieldWithoutEffect) {
  constexpr size_t kMaxTried = 150;
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
  places.resize(std::min(places.size(), kMaxTried));
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
  // An accepted tree computes the workload's results.
  for (size_t i = 0; i < std::min<size_t>(accepted.size(), 3); ++i)
    checkTree(workload, accepted[random() % accepted.size()], GetParam());
}

const unsigned kSeeds = 4 * static_cast<unsigned>(treeWorkloadClasses());
INSTANTIATE_TEST_SUITE_P(Seeds, Trees, ::testing::Range(0U, kSeeds));

/// The fields set in some tree, and the kernels.
struct Said {
  std::set<std::string> fields, kernels;
};

void collect(const google::protobuf::Message& message, Said& said) {
  const auto& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const auto* field : set) {
    said.fields.insert(std::string(field->full_name()));
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) collect(reflection.GetMessage(message, field), said);
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i)
      collect(reflection.GetRepeatedMessage(message, field, i), said);
  }
  if (message.GetDescriptor() == v1::Kernel::descriptor())
    said.kernels.insert(static_cast<const v1::Kernel&>(message).variant());
}

/// Adds the fields of the message, and of messages in it, that no tree of `said` sets.
void addMissing(const google::protobuf::Descriptor& message, const Said& said, std::set<std::string>& missing) {
  for (int i = 0; i < message.field_count(); ++i) {
    const std::string name(message.field(i)->full_name());
    if (!said.fields.contains(name)) missing.insert(name);
    const google::protobuf::Descriptor* inner = message.field(i)->message_type();
    if (inner != nullptr && inner != v1::Tile::descriptor()) addMissing(*inner, said, missing);
  }
}

// The properties above would not cover a field or a kernel that no tree has.
TEST(Tree, PropertiesAreShownOfEveryFieldAndKernel) {
  Said said;
  for (unsigned seed = 1000; seed < 1000 + kSeeds; ++seed) {
    const TreeWorkload workload = treeWorkload(seed);
    const auto schedule = defaultSchedule(unitOf(workload), workload.request);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    collect(*schedule, said);
  }
  std::set<std::string> missing;
  v1::BuildUnit some;
  const bool tiles = addTileInstructions(some, true);
  for (const KernelTraits& kernel : kKernels)
    if ((tiles || kernel.name != words::kTiles) && !said.kernels.contains(std::string(kernel.name)))
      missing.insert(std::string(kernel.name));
  for (const auto* message : {v1::Schedule::descriptor(), v1::Tile::descriptor()}) addMissing(*message, said, missing);
  // Fields of trees of described chips alone, which code generation refuses; compiler/backends/spatial tests their
  // effect.
  EXPECT_THAT(missing, ::testing::UnorderedElementsAre("tessera.v1.Kernel.matching", "tessera.v1.Kernel.sources",
                                                       "tessera.v1.Match.iteration", "tessera.v1.Match.loop"));
}

/// The first leaf of the tree for which `holds` is true; null: none.
v1::Tile* leafOf(google::protobuf::RepeatedPtrField<v1::Tile>& tiles, const std::function<bool(v1::Tile&)>& holds) {
  for (v1::Tile& tile : tiles) {
    if (tile.has_kernel() && holds(tile)) return &tile;
    if (v1::Tile* leaf = leafOf(*tile.mutable_children(), holds)) return leaf;
  }
  return nullptr;
}

/// Changes such a leaf in the first tree that has one: the code changes and is right, or the tree is refused with the
/// message `refused`.
void changeLeaf(const std::function<bool(v1::Tile&)>& holds, const std::function<void(v1::Tile&)>& change,
                const std::string& refused = "") {
  for (unsigned seed = 1000; seed < 1000 + kSeeds; ++seed) {
    const TreeWorkload workload = treeWorkload(seed);
    v1::BuildUnit unit = unitOf(workload);
    auto schedule = defaultSchedule(unit, workload.request);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    v1::Schedule changed = *schedule;
    v1::Tile* leaf = leafOf(*changed.mutable_phases(), holds);
    if (leaf == nullptr) continue;
    change(*leaf);
    const auto before = emitted(unit, *schedule), after = emitted(unit, changed);
    ASSERT_TRUE(before.ok()) << before.status();
    if (!refused.empty()) {
      ASSERT_FALSE(after.ok()) << printSchedule(changed);
      EXPECT_EQ(failureOf(after.status()).reason(), v1::Failure::INVALID_SCHEDULE);
      EXPECT_THAT(std::string(after.status().message()), ::testing::HasSubstr(refused));
      return;
    }
    ASSERT_TRUE(after.ok()) << after.status() << "\n" << printSchedule(changed);
    EXPECT_NE(*before, *after) << printSchedule(changed);
    return checkTree(workload, changed, seed);
  }
  FAIL() << "no tree has such a leaf";
}

v1::Stage* stageOf(v1::Tile& leaf, const std::function<bool(const v1::Stage&)>& holds) {
  const auto found = std::ranges::find_if(*leaf.mutable_stages(), holds);
  return found == leaf.mutable_stages()->end() ? nullptr : &*found;
}

TEST(Tree, OtherFormsCopyEveryOtherSetOfOperandsAndNestBlocks) {
  WorkloadText text;
  const Tensor product =
      text.named("matmul", {text.argument({67, 96}), text.argument({96, 130})}, text.fill({67, 130}, "0.0"));
  v1::BuildUnit unit = hostUnit(text.finish({product}));
  auto schedule = defaultSchedule(unit);
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  *unit.mutable_schedule() = *schedule;
  const auto packedOf = [](const v1::Schedule& tree) {
    std::set<int> operands;
    for (const v1::Tile& phase : tree.phases())
      for (const v1::Stage& stage : phase.stages()) operands.insert(stage.operand());
    return operands;
  };
  std::set<std::set<int>> packed = {packedOf(*schedule)};
  const std::vector<v1::Schedule> forms = seedSchedules(unit);
  for (const v1::Schedule& form : forms) packed.insert(packedOf(form));
  EXPECT_EQ(forms.size(), 4U) << "the others, and blocks for both of the chip's caches";
  EXPECT_EQ(packed, (std::set<std::set<int>>{{}, {0}, {1}, {0, 1}}));
}

TEST(Tree, SaysHowFarAheadCopiesWithinBlocksAreFetched) {
  const auto within = [](const v1::Stage& stage) { return stage.within(); };
  const auto fetched = [&](v1::Tile& leaf) {
    const v1::Stage* stage = stageOf(leaf, within);
    return stage != nullptr && stage->ahead() == Chip().costParameters().prefetching().prefetch_distance();
  };
  changeLeaf(fetched, [&](v1::Tile& leaf) { stageOf(leaf, within)->set_ahead(5); });
  changeLeaf(fetched, [&](v1::Tile& leaf) { stageOf(leaf, within)->set_ahead(0); });
  changeLeaf(fetched, [&](v1::Tile& leaf) { stageOf(leaf, within)->set_ahead(-1); }, "0 to 1024");
  const auto before = [](const v1::Stage& stage) { return !stage.within(); };
  changeLeaf([&](v1::Tile& leaf) { return stageOf(leaf, before) != nullptr; },
             [&](v1::Tile& leaf) { stageOf(leaf, before)->set_ahead(8); }, "no prefetch distance");
}

TEST(Tree, SaysHowFarApartRowsLie) {
  const auto apart = [](const v1::Stage& stage) { return stage.layout() == words::kApart; };
  const auto panels = [](const v1::Stage& stage) { return stage.layout() == words::kPanels; };
  const auto lies = [&](v1::Tile& leaf) { return stageOf(leaf, apart) != nullptr; };
  changeLeaf(lies, [&](v1::Tile& leaf) { stageOf(leaf, apart)->set_distance(stageOf(leaf, apart)->distance() + 3); });
  changeLeaf(lies, [&](v1::Tile& leaf) { stageOf(leaf, apart)->set_distance(1); }, "from one row to the next");
  changeLeaf(lies, [&](v1::Tile& leaf) { stageOf(leaf, apart)->set_distance(1 << 20); }, "from one row to the next");
  changeLeaf([&](v1::Tile& leaf) { return stageOf(leaf, panels) != nullptr; },
             [&](v1::Tile& leaf) { stageOf(leaf, panels)->set_distance(64); }, "panels have no rows");
}

TEST(Tree, SaysWhoseOperationsAreInterleaved) {
  changeLeaf([](v1::Tile& leaf) { return leaf.kernel().interleaved(); },
             [](v1::Tile& leaf) { leaf.mutable_kernel()->clear_interleaved(); });
  changeLeaf(
      [](v1::Tile& leaf) {
        return leaf.kernel().variant() == words::kReduction && !leaf.kernel().interleaved() &&
               leaf.kernel().points_size() > 0;
      },
      [](v1::Tile& leaf) { leaf.mutable_kernel()->set_interleaved(true); });
  changeLeaf([](v1::Tile& leaf) { return leaf.kernel().variant() == words::kElementwise; },
             [](v1::Tile& leaf) { leaf.mutable_kernel()->set_interleaved(true); }, "interleaved operations");
}

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

// A pixel shuffle to three planes: neither along rows nor along columns are both sides contiguous. Lanes should be a
// column apart, not a row, whose elements would share a few sets of the cache.
TEST(Tree, VectorsRunWhereLanesAreNearestInMemory) {
  WorkloadText text;
  const Tensor pixels = text.argument({64, 64, 2, 2, 3});
  const Tensor planes = text.generic({pixels}, {"d1, d3, d2, d4, d0", "d0, d1, d2, d3, d4"},
                                     text.empty({3, 64, 2, 64, 2}), 5, "", "%r = arith.addf %i0, %i0 : f32");
  const auto schedule = defaultSchedule(hostUnit(text.finish({planes})));
  ASSERT_TRUE(schedule.ok()) << schedule.status().message();
  EXPECT_EQ(schedule->phases(0).kernel().vector_loop(), "i3") << printSchedule(*schedule);
}

// Three independent nests of one phase: products of different shapes and a sum.
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
  // The printed tree reads back unchanged.
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
