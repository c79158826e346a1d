#include "workers/task/trial_rounds.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "proto/support/median.h"

namespace tessera::worker {
namespace {

v1::MeasuringRules rulesOf(int repeat, int most, double stable = 0) {
  v1::MeasuringRules rules;
  rules.set_repeat(repeat);
  rules.set_most(most);
  rules.set_stable(stable);
  return rules;
}

/// Rounds until enough() returns true, for two sides whose times vary by `noise` around their medians.
int roundsOf(const TrialRounds& trial, double baseline_ms, double candidate_ms, double noise, int seed = 7) {
  std::mt19937 random(seed);
  std::normal_distribution<double> around(0, noise);
  std::vector<double> baseline, candidate;
  do {
    baseline.push_back(baseline_ms * (1 + around(random)));
    candidate.push_back(candidate_ms * (1 + around(random)));
  } while (!trial.enough(baseline, candidate));
  return static_cast<int>(baseline.size());
}

TEST(TrialRounds, CalmSidesNeedTheLeastOnly) {
  EXPECT_EQ(roundsOf(TrialRounds({}, 10, 9.9), 10, 9.9, 0.001), 7);
  EXPECT_EQ(roundsOf(TrialRounds(rulesOf(12, 0), 10, 9.9), 10, 9.9, 0.001), 12);
}

TEST(TrialRounds, ShortRunsAreManyEvenIfCalm) {
  EXPECT_EQ(roundsOf(TrialRounds({}, 0.1, 0.1), 0.1, 0.1, 0.001), 200);
  EXPECT_EQ(roundsOf(TrialRounds({}, 1e-9, 1e-9), 1e-9, 1e-9, 0.001), 1000);
}

TEST(TrialRounds, EqualSidesInNoiseAreTimedToTheEnd) {
  EXPECT_EQ(roundsOf(TrialRounds({}, 10, 10), 10, 10, 0.2), 35);
  EXPECT_EQ(roundsOf(TrialRounds(rulesOf(4, 11), 10, 10), 10, 10, 0.2), 11);
}

TEST(TrialRounds, NoiseThatIsSmallBesideTheGapEndsThem) {
  std::vector<double> clear, close;
  for (int seed = 0; seed < 25; ++seed) {
    clear.push_back(roundsOf(TrialRounds({}, 10, 3), 10, 3, 0.06, seed));
    close.push_back(roundsOf(TrialRounds({}, 10, 9.9), 10, 9.9, 0.06, seed));
  }
  EXPECT_LE(medianOf(clear), 8);
  EXPECT_GE(medianOf(close), 20);
}

TEST(TrialRounds, ACandidateThatIsFarFasterRunsOftenerThanTheBaseline) {
  const TrialRounds far({}, 70, 18), near({}, 70, 50), named(rulesOf(7, 0), 70, 18), short_ones({}, 0.4, 0.05);
  EXPECT_EQ(far.candidateRuns(), 3);
  EXPECT_EQ(near.candidateRuns(), 1);
  EXPECT_EQ(named.candidateRuns(), 1) << "who names counts gets them of both";
  EXPECT_EQ(short_ones.candidateRuns(), 4);
  EXPECT_EQ(TrialRounds({}, 3, 9).candidateRuns(), 1);
  EXPECT_TRUE(far.enough(std::vector<double>(3, 70), std::vector<double>(9, 18)));
  EXPECT_FALSE(far.enough(std::vector<double>(2, 70), std::vector<double>(6, 18)));
  EXPECT_FALSE(short_ones.enough(std::vector<double>(49, 0.4), std::vector<double>(196, 0.05)));
}

TEST(TrialRounds, WhatIsClearlyBehindTheBestNeedsAPartOfThem) {
  EXPECT_EQ(roundsOf(TrialRounds({}, 10, 12), 10, 12, 0.001), 3);
  EXPECT_EQ(roundsOf(TrialRounds({}, 10, 10.3), 10, 10.3, 0.001), 7) << "3 % may be noise";
  EXPECT_EQ(roundsOf(TrialRounds({}, 10, 9, 1.3), 10, 9, 0.001), 3) << "faster than the default, not than the best";
  EXPECT_EQ(roundsOf(TrialRounds({}, 10, 9, 1.1), 10, 9, 0.001), 7);
  EXPECT_EQ(roundsOf(TrialRounds({}, 0.1, 0.2), 0.1, 0.2, 0.001), 50) << "a quarter of 200";
  EXPECT_EQ(roundsOf(TrialRounds(rulesOf(9, 0), 10, 12), 10, 12, 0.001), 9) << "who names counts gets them";
  std::vector<double> rounds;
  for (int seed = 0; seed < 25; ++seed) rounds.push_back(roundsOf(TrialRounds({}, 10, 12), 10, 12, 0.2, seed));
  EXPECT_GE(medianOf(rounds), 7) << "in noise there is no telling";
}

TEST(TrialRounds, LongRunsAreFew) {
  EXPECT_EQ(roundsOf(TrialRounds({}, 400, 300), 400, 300, 0.2), 3);
  EXPECT_NEAR(roundsOf(TrialRounds({}, 100, 80), 100, 80, 0.2), 4, 1);  // 0.7 s in total
  // Explicit counts are followed.
  EXPECT_EQ(roundsOf(TrialRounds(rulesOf(5, 0), 400, 400), 400, 400, 0.2), 5);
  EXPECT_EQ(roundsOf(TrialRounds(rulesOf(5, 9), 400, 400), 400, 400, 0.2), 9);
}

TEST(TrialRounds, OneRunRulesOutWhatIsFarSlower) {
  EXPECT_TRUE(TrialRounds({}, 1, 6).hopeless());
  EXPECT_FALSE(TrialRounds({}, 1, 4).hopeless());
  EXPECT_FALSE(TrialRounds({}, 0.01, 0.06).hopeless());  // such a short run is not conclusive
  EXPECT_TRUE(TrialRounds({}, 38, 37, 18).hopeless()) << "others take 2 ms";
  EXPECT_FALSE(TrialRounds({}, 38, 4, 18).hopeless());
  EXPECT_FALSE(TrialRounds({}, 38, 37, 1).hopeless());
}

}  // namespace
}  // namespace tessera::worker
