#include "compiler/intrinsic/ranking.h"

#include <gtest/gtest.h>

namespace tessera::compiler::intrinsic {
namespace {

TEST(Ranking, PairsCountOnceAndTiesHalf) {
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({1, 2, 3}, {10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({3, 2, 1}, {10, 20, 30}), 0);
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({1, 1, 2}, {10, 20, 30}), 2.5 / 3);
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({1, 2}, {10, 10}), 1);  // there is no order
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({}, {}), 1);
}

TEST(Ranking, PairsThatAreAsGoodAsEqualCanBeLeftOut) {
  const std::vector<double> measured = {100, 100.9, 200};
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({2, 1, 3}, measured), 2.0 / 3);
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({2, 1, 3}, measured, 0.01), 1);
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({2, 3, 1}, measured, 0.01), 0);
  EXPECT_DOUBLE_EQ(pairwiseAccuracy({2, 1, 3}, measured, 1), 1);  // no pair is left
}

TEST(Ranking, RecallIsOfTheBestMeasured) {
  EXPECT_DOUBLE_EQ(recallOfBest({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}, 0.4), 1);
  EXPECT_DOUBLE_EQ(recallOfBest({5, 2, 3, 4, 1}, {1, 2, 3, 4, 5}, 0.4), 0.5);
  EXPECT_DOUBLE_EQ(recallOfBest({5, 4, 3, 2, 1}, {1, 2, 3, 4, 5}, 0.2), 0);
  EXPECT_DOUBLE_EQ(recallOfBest({}, {}, 0.4), 1);
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
