#include "compiler/intrinsic/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::HasSubstr;

Nest convolution() {
  return loopnest::parse("C2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {2, 2, 2, 2, 2, 2, 2})
      .value();
}

TEST(Verify, TheExampleOfFigure53Holds) {
  const Nest unit = nestOf(testing::smallMatrixUnit()).value();
  const Matching matching{{0, 1, 0, 0, 2, 2, 2}, {1, 2}};  // n k p q c r s
  EXPECT_TRUE(verify(convolution(), unit, matching).correct);
  const MappingMatrices matrices = matricesOf(convolution(), unit, matching);
  EXPECT_EQ(print(matrices.software), "  n k p q c r s\nO 1 1 1 1 0 0 0\nI 1 0 1 1 1 1 1\nW 0 1 0 0 1 1 1\n");
  EXPECT_EQ(print(matrices.mapping), "  n k p q c r s\ni 1 0 1 1 0 0 0\nj 0 1 0 0 0 0 0\nr 0 0 0 0 1 1 1\n");
}

TEST(Verify, TheMistakeOf55IsRefusedWithItsPlace) {
  const Nest unit = nestOf(testing::smallMatrixUnit()).value();
  const Verdict verdict = verify(convolution(), unit, {{0, 0, -1, -1, 2, -1, -1}, {1, 2}});
  EXPECT_FALSE(verdict.correct);
  EXPECT_THAT(verdict.reason, HasSubstr("Z * Y at (I, k): 1 instead of 0"));
  EXPECT_THAT(verify(convolution(), unit, {{0, -1, -1, -1, 2, -1, -1}, {1, 2}}).reason, HasSubstr("X * Y^T at ("));
}

TEST(Verify, OfAllMatchingsOfC2DAlgorithm4LetsSevenTimesSevenPass) {
  // 3 loops for i, 1 for j, 3 for r; the admission rule then accepts 35 of them.
  const Nest unit = nestOf(testing::smallMatrixUnit()).value(), software = convolution();
  size_t correct = 0;
  Matching matching{std::vector<int>(7, -1), {1, 2}};
  for (int code = 0; code < 1 << 14; ++code) {
    for (int loop = 0; loop < 7; ++loop) matching.iteration[loop] = (code >> (2 * loop) & 3) - 1;
    correct += verify(software, unit, matching).correct;
  }
  EXPECT_EQ(correct, 49u);
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
