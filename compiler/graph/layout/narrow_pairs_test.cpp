#include "compiler/graph/layout/narrow_pairs.h"

#include <gtest/gtest.h>

namespace tessera::compiler {
namespace {

TEST(NarrowPairs, AreWideByTheSumOfNeighboursOfOneSign) {
  std::vector<int8_t> weights(64 * 4, 0);
  EXPECT_EQ(widePairFraction(weights), 0);
  weights[10] = weights[11] = 64;
  weights[75] = weights[76] = 127;  // of two pairs
  weights[140] = 127, weights[141] = -127;
  EXPECT_EQ(widePairFraction(weights), 0);
  weights[11] = 65;
  EXPECT_EQ(widePairFraction(weights), 0.25);
  weights[200] = -128, weights[201] = -1;
  EXPECT_EQ(widePairFraction(weights), 0.5);
  weights[202] = weights[203] = -128;
  EXPECT_EQ(widePairFraction(weights), 0.5) << "runs count, not pairs";
}

TEST(NarrowPairs, OfPartsOfRunsCount) {
  const std::vector<int8_t> weights(66, 100);
  EXPECT_EQ(widePairFraction(weights), 1);
  EXPECT_EQ(widePairFraction(llvm::ArrayRef(weights).take_front(1)), 0) << "no neighbour";
  EXPECT_EQ(widePairFraction({}), 0);
}

}  // namespace
}  // namespace tessera::compiler
