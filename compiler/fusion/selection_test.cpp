#include "compiler/fusion/selection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>

namespace tessera::compiler::fusion {
namespace {

double exhaustive(const std::vector<Offer>& offers) {
  double best = 0;
  for (uint32_t set = 0; set < 1U << offers.size(); ++set) {
    std::set<int> used;
    double gain = 0;
    bool apart = true;
    for (size_t i = 0; i < offers.size(); ++i) {
      if (!(set >> i & 1)) continue;
      gain += offers[i].gain;
      for (const int group : offers[i].groups) apart &= used.insert(group).second;
    }
    if (apart) best = std::max(best, gain);
  }
  return best;
}

/// The result is a valid selection with the gain it states.
void expectSelects(const std::vector<Offer>& offers, const Selection& selection) {
  std::set<int> used;
  double gain = 0;
  for (const int offer : selection.taken) {
    gain += offers[offer].gain;
    for (const int group : offers[offer].groups) EXPECT_TRUE(used.insert(group).second) << "group " << group;
  }
  EXPECT_NEAR(gain, selection.gain, 1e-9);
  for (size_t i = 0; i < offers.size(); ++i) {
    const bool meets = std::ranges::any_of(offers[i].groups, [&](int group) { return used.contains(group); });
    EXPECT_TRUE(meets) << "offer " << i << " is free and was left";
  }
}

std::vector<Offer> randomOffers(std::mt19937& random, int groups, int count, int most) {
  auto upTo = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::vector<Offer> offers(count);
  for (Offer& offer : offers) {
    std::set<int> wanted;
    const int size = upTo(1, std::min(groups, most));
    while (static_cast<int>(wanted.size()) < size) wanted.insert(upTo(0, groups - 1));
    offer.groups.assign(wanted.begin(), wanted.end());
    offer.gain = upTo(1, 100);
  }
  return offers;
}

TEST(Selection, TwoSmallOnesBeforeTheLargestGain) {
  // By largest gain first, the middle one would be taken and exclude all others.
  const std::vector<Offer> offers = {{{0, 1}, 6}, {{1, 2}, 10}, {{2, 3}, 6}};
  const Selection selection = select(offers);
  EXPECT_THAT(selection.taken, testing::ElementsAre(0, 2));
  EXPECT_EQ(selection.gain, 12);
  EXPECT_EQ(selection.missed, 0);
  EXPECT_EQ(selection.largest, 3);
}

TEST(Selection, NothingIsOfferedAndOneIsOffered) {
  EXPECT_TRUE(select({}).taken.empty());
  EXPECT_THAT(select(std::vector<Offer>{{{7}, 1}}).taken, testing::ElementsAre(0));
}

TEST(Selection, EqualsTheExhaustiveChoice) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::vector<Offer> offers = randomOffers(random, 2 + trial % 11, 1 + trial % 13, 1 + trial % 2 + trial % 3);
    const Selection selection = select(offers);
    expectSelects(offers, selection);
    EXPECT_EQ(selection.missed, 0);
    EXPECT_NEAR(selection.gain, exhaustive(offers), 1e-9);
  }
}

TEST(Selection, WhatIsDroppedIsBounded) {
  std::mt19937 random(11);
  int inexact = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const std::vector<Offer> offers = randomOffers(random, 12, 14, 4);
    const Selection selection = select(offers, /*most_open=*/1 + trial % 4);
    expectSelects(offers, selection);
    const double best = exhaustive(offers);
    EXPECT_LE(selection.gain, best + 1e-9);
    EXPECT_GE(selection.gain + selection.missed, best - 1e-9);
    inexact += selection.gain < best - 1e-9;
  }
  EXPECT_GT(inexact, 0) << "nothing was ever dropped that mattered: the bound was not tried";
}

TEST(Selection, LongChainsOfOverlapsAreExact) {
  // Neighbours exclude each other: the optimum takes alternate ones, with gaps of two where gains are small.
  std::vector<Offer> offers;
  std::vector<double> best = {0, 0};  // over the offers before
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    offers.push_back({{i, i + 1}, static_cast<double>(1 + random() % 50)});
    best.push_back(std::max(best[i + 1], best[i] + offers.back().gain));
  }
  const Selection selection = select(offers);
  expectSelects(offers, selection);
  EXPECT_EQ(selection.missed, 0);
  EXPECT_NEAR(selection.gain, best.back(), 1e-6);
}

}  // namespace
}  // namespace tessera::compiler::fusion
