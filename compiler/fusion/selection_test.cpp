#include "compiler/fusion/selection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>

namespace tessera::compiler::fusion {
namespace {

double exhaustive(const std::vector<FusionSet>& sets) {
  double best = 0;
  for (uint32_t set = 0; set < 1U << sets.size(); ++set) {
    std::set<int> used;
    double gain = 0;
    bool apart = true;
    for (size_t i = 0; i < sets.size(); ++i) {
      if (!(set >> i & 1)) continue;
      gain += sets[i].gain;
      for (const int group : sets[i].groups) apart &= used.insert(group).second;
    }
    if (apart) best = std::max(best, gain);
  }
  return best;
}

/// The result is a valid selection with the gain it states.
void expectSelects(const std::vector<FusionSet>& sets, const Selection& selection) {
  std::set<int> used;
  double gain = 0;
  for (const int set : selection.selected) {
    gain += sets[set].gain;
    for (const int group : sets[set].groups) EXPECT_TRUE(used.insert(group).second) << "group " << group;
  }
  EXPECT_NEAR(gain, selection.gain, 1e-9);
  for (size_t i = 0; i < sets.size(); ++i) {
    const bool meets = std::ranges::any_of(sets[i].groups, [&](int group) { return used.contains(group); });
    EXPECT_TRUE(meets) << "set " << i << " is free and was left";
  }
}

std::vector<FusionSet> randomSets(std::mt19937& random, int groups, int count, int most) {
  auto upTo = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<FusionSet> sets(count);
  for (FusionSet& set : sets) {
    std::set<int> wanted;
    const int size = upTo(1, std::min(groups, most));
    while (static_cast<int>(wanted.size()) < size) wanted.insert(upTo(0, groups - 1));
    set.groups.assign(wanted.begin(), wanted.end());
    set.gain = upTo(1, 100);
  }
  return sets;
}

TEST(Selection, TwoSmallOnesBeforeTheLargestGain) {
  // By largest gain first, the middle one would be taken and exclude all others.
  const std::vector<FusionSet> sets = {{{0, 1}, 6}, {{1, 2}, 10}, {{2, 3}, 6}};
  const Selection selection = select(sets);
  EXPECT_THAT(selection.selected, testing::ElementsAre(0, 2));
  EXPECT_EQ(selection.gain, 12);
  EXPECT_EQ(selection.optimality_gap, 0);
  EXPECT_EQ(selection.largest_part, 3);
}

TEST(Selection, NothingIsOfferedAndOneIsOffered) {
  EXPECT_TRUE(select({}).selected.empty());
  EXPECT_THAT(select(std::vector<FusionSet>{{{7}, 1}}).selected, testing::ElementsAre(0));
}

TEST(Selection, EqualsTheExhaustiveChoice) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::vector<FusionSet> sets = randomSets(random, 2 + trial % 11, 1 + trial % 13, 1 + trial % 2 + trial % 3);
    const Selection selection = select(sets);
    expectSelects(sets, selection);
    EXPECT_EQ(selection.optimality_gap, 0);
    EXPECT_NEAR(selection.gain, exhaustive(sets), 1e-9);
  }
}

TEST(Selection, WhatIsDroppedIsBounded) {
  std::mt19937 random(11);
  int inexact = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::vector<FusionSet> sets = randomSets(random, 12, 14, 4);
    const Selection selection = select(sets, /*max_states=*/1 + trial % 4);
    expectSelects(sets, selection);
    const double best = exhaustive(sets);
    EXPECT_LE(selection.gain, best + 1e-9);
    EXPECT_GE(selection.gain + selection.optimality_gap, best - 1e-9);
    inexact += selection.gain < best - 1e-9;
  }
  EXPECT_GT(inexact, 0) << "nothing was ever dropped that mattered: the bound was not tried";
}

TEST(Selection, LongChainsOfOverlapsAreExact) {
  // Neighbours exclude each other: the optimum takes alternate ones, with gaps of two where gains are small.
  std::vector<FusionSet> sets;
  std::vector<double> best = {0, 0};  // over the sets before
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    sets.push_back({{i, i + 1}, static_cast<double>(1 + random() % 50)});
    best.push_back(std::max(best[i + 1], best[i] + sets.back().gain));
  }
  const Selection selection = select(sets);
  expectSelects(sets, selection);
  EXPECT_EQ(selection.optimality_gap, 0);
  EXPECT_NEAR(selection.gain, best.back(), 1e-6);
}

}  // namespace
}  // namespace tessera::compiler::fusion
