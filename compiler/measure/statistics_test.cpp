#include "compiler/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::compiler {
namespace {

TEST(Spread, MiddleOfOddAndEvenNumbers) {
  EXPECT_EQ(spreadOf({7}).median, 7);
  EXPECT_EQ(spreadOf({7}).deviation, 0);
  EXPECT_EQ(spreadOf({9, 1, 5}).median, 5);
  EXPECT_EQ(spreadOf({9, 1, 5}).deviation, 4);
  EXPECT_EQ(spreadOf({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(spreadOf({4, 1, 3, 2}).deviation, 1);
}

TEST(Spread, ABurstMovesNeither) {
  EXPECT_EQ(spreadOf({10, 11, 9, 10, 1000, 10, 5000}).median, 10);
  EXPECT_LE(spreadOf({10, 11, 9, 10, 1000, 10, 5000}).deviation, 1);
}

TEST(Spread, ShareOfNothingIsNoShare) {
  EXPECT_EQ((Spread{.median = 8, .deviation = 2}).share(), 0.25);
  EXPECT_EQ((Spread{.median = -8, .deviation = 2}).share(), 0.25);
  EXPECT_TRUE(std::isinf((Spread{.median = 0, .deviation = 2}).share()));
}

}  // namespace
}  // namespace tessera::compiler
