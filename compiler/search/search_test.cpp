#include "compiler/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/summary.h"
#include "compiler/schedule/text.h"
#include "compiler/search/moves.h"

namespace tessera::compiler::search {
namespace {

// A product whose second operand is copied to panels before it, with a consumer in slices.
constexpr const char* kTree =
    "vectors 256\n"
    "[i0:Sp(core)/1 i1:Tp/16] pack nest 0 operand 1 vectors i1 x8 tile i1:16\n"
    "[i1:Sp(core)/48 i0:Tp/4 i1:Tp/16] outer-product nest 0 vectors i1 x8 tile i0:4,i1:16,r2:2 points i0,i1 sums r2 "
    "fetch ahead 4\n"
    "  stage panels operand 1 along i1 order i1,r2\n"
    "L2 [d0:Sp(core)/8] Shar\n"
    "  [i1:Tp/8] elementwise nest 1 vectors i1 x8 tile i1:8\n";

v1::Schedule parsed(const std::string& text) {
  auto schedule = parseSchedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? *schedule : v1::Schedule();
}

const Neighbour* find(const std::vector<Neighbour>& all, const std::string& kind, const std::string& path,
                      const std::string& dimension, const std::string& change) {
  for (const Neighbour& each : all)
    if (each.direction.kind == kind && each.direction.path == path && each.direction.subject == dimension &&
        each.direction.change == change)
      return &each;
  return nullptr;
}

TEST(Space, NeighboursDifferFromTheTreeAndFromEachOther) {
  const v1::Schedule tree = parsed(kTree);
  std::set<std::string> seen{printSchedule(tree)};
  const auto neighbours = neighboursOf(tree);
  EXPECT_GT(neighbours.size(), 30);
  std::set<std::string> kinds;
  for (const Neighbour& each : neighbours) {
    const std::string text = printSchedule(each.schedule);
    EXPECT_TRUE(seen.insert(text).second) << each.direction.type() << "\n" << text;
    EXPECT_EQ(printSchedule(parsed(text)), text);
    kinds.insert(each.direction.kind);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"tile", "pair", "block", "order", "bind", "fetch", "stage", "slices",
                                          "variant", "vectors"}));
}

TEST(Space, ADirectionsOppositeTakesItsStepBack) {
  const v1::Schedule start = parsed(
      "vectors 512\n[i1:Sp(core)/16 i0:Tp/2] outer-product nest 0 vectors i1 x16 tile i0:2,i1:16 points i0 sums r2\n");
  std::map<std::string, int> back;
  for (const Neighbour& there : neighboursOf(start)) {
    const Direction opposite = there.direction.opposite();
    EXPECT_EQ(opposite.kind.empty() ? there.direction.type() : opposite.opposite().type(), there.direction.type());
    if (there.direction.kind != "tile" && there.direction.kind != "pair") continue;
    for (const Neighbour& again : neighboursOf(there.schedule)) {
      if (again.direction.path != opposite.path || again.direction.type() != opposite.type()) continue;
      EXPECT_EQ(again.text, printSchedule(start)) << there.direction.type();
      ++back[there.direction.kind];
    }
  }
  EXPECT_GE(back["tile"], 4);
  EXPECT_GE(back["pair"], 1);
}

TEST(Space, PartsStaySeveralWholeSlices) {
  constexpr const char* kRest = "] Shar\n  [] Shar\n    [i1:Tp/8] elementwise nest 0 vectors i1 x8 tile i1:8\n";
  const auto slicesIn = [&](const std::string& loops, const std::string& dimension, const std::string& change) {
    const auto neighbours = neighboursOf(parsed(absl::StrCat("vectors 256\nL2 [", loops, kRest)));
    const Neighbour* found = find(neighbours, "slices", "0", dimension, change);
    if (found == nullptr) return std::string();
    const std::string text = printSchedule(found->schedule);
    const size_t from = text.find('[') + 1;
    return text.substr(from, text.find(']') - from);
  };
  const std::string tree = "d1:Sp(core)/28 d1:Tp/4";
  EXPECT_EQ(slicesIn(tree, "d1 parts", "x2"), "d1:Sp(core)/56 d1:Tp/4");
  EXPECT_EQ(slicesIn(tree, "d1 parts", "/2"), "d1:Sp(core)/16 d1:Tp/4");
  EXPECT_EQ(slicesIn(tree, "d1", "x2"), "d1:Sp(core)/32 d1:Tp/8");
  EXPECT_EQ(slicesIn(tree, "d1", "/2"), "d1:Sp(core)/28 d1:Tp/2");
  EXPECT_EQ(slicesIn("d1:Sp(core)/8 d1:Tp/4", "d1 parts", "/2"), "") << "one slice keeps nothing";
}

TEST(Space, ATileTakesItsLoopsBlocksAndPanelsAlong) {
  const auto neighbours = neighboursOf(parsed(kTree));
  const Neighbour* wider = find(neighbours, "tile", "1", "i1", "+1");
  ASSERT_NE(wider, nullptr);
  EXPECT_EQ(printSchedule(wider->schedule),
            "vectors 256\n"
            "[i0:Sp(core)/1 i1:Tp/24] pack nest 0 operand 1 vectors i1 x8 tile i1:24 points i1\n"
            "[i1:Sp(core)/48 i0:Tp/4 i1:Tp/24] outer-product nest 0 vectors i1 x8 tile i0:4,i1:24,r2:2 points i0,i1 "
            "sums r2 fetch ahead 4\n"
            "  stage panels operand 1 along i1 order i1,r2\n"
            "L2 [d0:Sp(core)/8] Shar\n"
            "  [i1:Tp/8] elementwise nest 1 vectors i1 x8 tile i1:8\n");
  const Neighbour* narrow = find(neighbours, "tile", "1", "i1", "/2");
  ASSERT_NE(narrow, nullptr);
  // One vector wide: no longer a loop of several points; the block stays a multiple of it.
  const v1::Tile& leaf = narrow->schedule.phases(1);
  ASSERT_EQ(leaf.kernel().points_size(), 1);
  EXPECT_EQ(leaf.kernel().points(0), "i0");
  EXPECT_EQ(leaf.loops(0).step() % 8, 0);
  EXPECT_EQ(tileAlong(narrow->schedule.phases(0).kernel(), "i1"), 8);
}

TEST(Space, AnUnrolledSumIsNoLoop) {
  const auto neighbours = neighboursOf(parsed(kTree));
  const Neighbour* more = find(neighbours, "tile", "1", "r2", "x2");
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(more->schedule.phases(1).loops_size(), 3);
  EXPECT_EQ(tileAlong(more->schedule.phases(1).kernel(), "r2"), 4);
  const Neighbour* none = find(neighbours, "tile", "1", "r2", "/2");
  ASSERT_NE(none, nullptr);
  EXPECT_EQ(none->schedule.phases(1).loops_size(), 3);
  EXPECT_EQ(none->schedule.phases(1).kernel().tile_size(), 2);
}

TEST(Space, BlocksAreMadeScaledAndLeftOut) {
  const auto neighbours = neighboursOf(parsed(kTree));
  const Neighbour* made = find(neighbours, "block", "1", "r2", "16 tiles");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->schedule.phases(1).loops(1).dimension(), "r2");
  EXPECT_EQ(made->schedule.phases(1).loops(1).step(), 32);
  const Neighbour* left_out = find(neighbours, "block", "1", "i1", "out");
  ASSERT_NE(left_out, nullptr);
  EXPECT_EQ(left_out->schedule.phases(1).loops_size(), 2);
  EXPECT_THAT(blocksAlong(left_out->schedule.phases(1), "i1"), ::testing::IsEmpty());
}

TEST(Space, BlocksAreMadeAroundBlocks) {
  const Extents columns = {{{0, "i1"}, 1000}};
  EXPECT_EQ(find(neighboursOf(parsed(kTree)), "block", "1", "i1", "4 blocks"), nullptr)
      << "nobody knows whether the loop is longer";
  const auto neighbours = neighboursOf(parsed(kTree), columns);
  const Neighbour* around = find(neighbours, "block", "1", "i1", "4 blocks");
  ASSERT_NE(around, nullptr);
  const v1::Tile& leaf = around->schedule.phases(1);
  EXPECT_EQ(blocksAlong(leaf, "i1"), (std::vector<int64_t>{192, 48}));
  EXPECT_EQ(leaf.loops(0).unit(), "core") << "blocks outside of those of the grid are of the grid";
  const auto further = neighboursOf(around->schedule, columns);
  const Neighbour* smaller = find(further, "block", "1", "i1", "/2 within 1");
  EXPECT_EQ(smaller, nullptr) << "24 columns are no whole tiles";
  const Neighbour* outer = find(further, "block", "1", "i1", "/2");
  ASSERT_NE(outer, nullptr);
  EXPECT_EQ(blocksAlong(outer->schedule.phases(1), "i1"), (std::vector<int64_t>{96, 48}));
  const Neighbour* out = find(further, "block", "1", "i1", "out within 1");
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(blocksAlong(out->schedule.phases(1), "i1"), (std::vector<int64_t>{192}));
  // Tiles of three vectors: blocks remain multiples of them, and of each other.
  const Neighbour* wider = find(further, "tile", "1", "i1", "+1");
  ASSERT_NE(wider, nullptr);
  EXPECT_EQ(blocksAlong(wider->schedule.phases(1), "i1"), (std::vector<int64_t>{192, 48}));
  v1::Schedule deep = around->schedule;
  ASSERT_TRUE(addBlock(*deep.mutable_phases(1), "i1", 384));
  EXPECT_EQ(Legality(parsed(kTree), columns, {}).refusal(deep), "");
  EXPECT_FALSE(addBlock(*deep.mutable_phases(1), "i1", 768)) << "no more than three";
}

TEST(Space, AStageIsLeftOutWithItsCopies) {
  const auto neighbours = neighboursOf(parsed(kTree));
  const Neighbour* plain = find(neighbours, "stage", "1", "panels", "out");
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->schedule.phases_size(), 2);
  EXPECT_EQ(plain->schedule.phases(0).stages_size(), 0);
}

TEST(Space, VectorsGoAlongAnotherLoop) {
  const v1::Schedule tree = parsed(
      "vectors 256\n"
      "[i0:Sp(core)/3 i1:Tp/16] reduction nest 0 vectors i1 x8 tile i0:3,i1:16,r2:4 points i0,i1 sums r2 fetch ahead "
      "4\n");
  const Extents extents{{{0, "i0"}, 21}, {{0, "i1"}, 64}, {{0, "r2"}, 6}};
  const auto neighbours = neighboursOf(tree, extents);
  const Neighbour* other = find(neighbours, "lanes", "0", "i0", "along");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->text,
            "vectors 256\n"
            "[i0:Sp(core)/8 i1:Tp/2] reduction nest 0 vectors i0 x8 tile i0:8,i1:2,r2:4 points i1 sums r2\n");
  const Neighbour* summing = find(neighbours, "lanes", "0", "r2", "along");
  ASSERT_NE(summing, nullptr);
  EXPECT_EQ(summing->text,
            "vectors 256\n"
            "[i0:Sp(core)/3 i1:Tp/2] horizontal nest 0 vectors r2 x8 tile i0:3,i1:2,r2:6 points i0,i1 sums r2\n")
      << "no longer than the loop";
  EXPECT_EQ(find(neighbours, "lanes", "0", "i1", "along"), nullptr) << "they do";
  for (const Neighbour& each : neighboursOf(parsed(kTree)))
    EXPECT_NE(each.direction.kind, "lanes") << "a product's follow from its panels\n" << each.text;
}

TEST(Space, HalfAsWideVectorsHaveHalfTheLanes) {
  const auto neighbours = neighboursOf(parsed(kTree));
  const Neighbour* half = find(neighbours, "vectors", "", "bits", "/2");
  ASSERT_NE(half, nullptr);
  for (const v1::Tile* leaf : leavesOf(half->schedule)) EXPECT_EQ(leaf->kernel().lanes(), 4);
}

/// Step of the innermost block loop along a dimension; 0 if there is none.
int64_t innermostBlock(const v1::Tile& leaf, const std::string& dimension) {
  const std::vector<int64_t> blocks = blocksAlong(leaf, dimension);
  return blocks.empty() ? 0 : blocks.back();
}

/// A landscape with one optimum: eight rows of three vectors, blocks of 128 sums, prefetch distance eight.
double speedOf(const v1::Schedule& schedule) {
  if (schedule.phases_size() != 3 || schedule.vector_bits() != 256) return 0;
  const v1::Tile& leaf = schedule.phases(1);
  auto distance = [](double value, double wanted) { return std::fabs(std::log2((value + 1) / (wanted + 1))); };
  const double off = distance(static_cast<double>(tileAlong(leaf.kernel(), "i0")), 8) +
                     distance(static_cast<double>(tileAlong(leaf.kernel(), "i1")), 24) +
                     0.5 * distance(static_cast<double>(innermostBlock(leaf, "r2")), 128) +
                     0.2 * distance(leaf.kernel().prefetch().ahead(), 8);
  return 2 * std::exp(-0.4 * off);
}

double found(const std::string& method, uint64_t seed, int trials) {
  auto search = makeSearch(method, parsed(kTree), seed);
  EXPECT_TRUE(search.ok());
  const double start = speedOf(parsed(kTree));
  for (int trial = 0; trial < trials; ++trial) {
    const auto candidate = (*search)->propose();
    if (!candidate) break;
    (*search)->observe(*candidate, {speedOf(candidate->schedule) / start});
  }
  return (*search)->speed() * start;
}

TEST(Search, TheWalkClimbsFartherThanChance) {
  double walked = 0, random = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    walked += found("walk", seed, 150);
    random += found("random", seed, 150);
  }
  EXPECT_GT(walked, random);
  EXPECT_GT(walked / 20, 1.6);
}

TEST(Search, EqualSeedsAndAnswersGiveEqualProposals) {
  for (const char* method : {"walk", "random"}) {
    auto one = makeSearch(method, parsed(kTree), 7), other = makeSearch(method, parsed(kTree), 7);
    for (int trial = 0; trial < 60; ++trial) {
      const auto a = (*one)->propose(), b = (*other)->propose();
      ASSERT_TRUE(a && b);
      ASSERT_EQ(printSchedule(a->schedule), printSchedule(b->schedule));
      (*one)->observe(*a, {speedOf(a->schedule)});
      (*other)->observe(*b, {speedOf(b->schedule)});
    }
  }
}

TEST(Search, ProposesNothingTwiceAndEnds) {
  auto search = makeSearch("random", parsed("vectors 128\n[] scalar nest 0\n"), 1);
  ASSERT_TRUE(search.ok());
  std::set<std::string> seen;
  while (const auto candidate = (*search)->propose()) {
    ASSERT_TRUE(seen.insert(printSchedule(candidate->schedule)).second);
    (*search)->observe(*candidate, {});  // refused: it has no neighbours
    ASSERT_LT(seen.size(), 100);
  }
  EXPECT_EQ((*search)->speed(), 1);
}

TEST(Search, WhatIsSuggestedComesFirstAndOnce) {
  auto search = makeSearch("walk", parsed(kTree), 1);
  ASSERT_TRUE(search.ok());
  const v1::Schedule other = parsed("vectors 128\n[] scalar nest 0\n");
  (*search)->suggest(parsed(kTree));  // the start itself
  (*search)->suggest(other);
  (*search)->suggest(other);
  auto first = (*search)->propose();
  ASSERT_TRUE(first);
  EXPECT_EQ(printSchedule(first->schedule), printSchedule(other));
  (*search)->observe(*first, {1.5});
  EXPECT_EQ(printSchedule((*search)->best()), printSchedule(other));
  auto next = (*search)->propose();
  ASSERT_TRUE(next);
  EXPECT_NE(printSchedule(next->schedule), printSchedule(other));
}

TEST(Search, UnknownMethodsAreRefusedByName) {
  EXPECT_EQ(makeSearch("guess", parsed(kTree), 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::compiler::search
