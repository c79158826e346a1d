#include "compiler/import/expression/nest_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::compiler::expression {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<loopnest::Nest> nest(const std::string& text) {
  const auto program = parse(text);
  if (!program.ok()) return program.status();
  return nestOf(*program, "problem");
}

TEST(NestOf, StatementsShareLoopsByName) {
  const auto attention = nest(
      "param L = 8;\n"
      "input Q[4, 2], K[L, 2], V[L, 3]: f16;\n"
      "S[m, l] += Q[m, k] * K[l, k];\n"
      "M[m] max= S[m, l];\n"
      "P[m, l] = exp(S[m, l] - M[m]);\n"
      "O[m, n] += P[m, l] * V[l, n];\n");
  ASSERT_TRUE(attention.ok()) << attention.status();
  EXPECT_THAT(attention->extents(), ElementsAre(4, 8, 2, 3));  // m, l, k, n
  ASSERT_EQ(attention->statements.size(), 4U);
  EXPECT_EQ(attention->statements[0].body.flops, 2);
  EXPECT_EQ(attention->statements[1].body.flops, 1);
  EXPECT_EQ(attention->statements[2].body.flops, 2);
  EXPECT_EQ(attention->statements[1].body.combine, loopnest::Combine::kMaximum);
  EXPECT_TRUE(attention->isReduction(1, 1));
  EXPECT_FALSE(attention->isReduction(1, 2));
  for (const loopnest::Access& access : attention->accesses) EXPECT_EQ(access.dtype, v1::DATA_TYPE_F16) << access.name;
  EXPECT_EQ(attention->accesses.size(), 7U);  // S and P, written and read, are one access each
}

TEST(NestOf, WindowsKeepStridesAndOffsets) {
  const auto convolution = nest("input I[9], W[3]: f32;\nO[p] += I[2 * p + r] * W[r];\n");
  ASSERT_TRUE(convolution.ok()) << convolution.status();
  EXPECT_EQ(convolution->extents(), (std::vector<int64_t>{4, 3}));
  const loopnest::Access& image = convolution->accesses[0];
  EXPECT_EQ(image.subscripts[0].coefficientOf(0), 2);
  EXPECT_EQ(image.subscripts[0].coefficientOf(1), 1);
}

TEST(NestOf, FaultsNameThePlace) {
  const auto fault = [](const std::string& text) { return std::string(nest(text).status().message()); };
  EXPECT_THAT(fault("input A[N];\nO[i] = A[i];\n"),
              HasSubstr("this extent has no value; write `param N = ...;` above"));
  EXPECT_THAT(fault("input A[4], B[5];\nO[i] = A[i];\nP[i] = B[i];\n"),
              HasSubstr("'i' has 4 iterations above and 5 here"));
  EXPECT_THAT(fault("input A[4];\nO[i] = A[i / 2] where i < 8;\n"),
              HasSubstr("this subscript is no sum of multiples of variables"));
  EXPECT_THAT(fault("input A[4];\nO[i] = A[i];\nO[i] = A[i];\n"), HasSubstr("defined already"));
  EXPECT_THAT(fault("input A[4];\n"), HasSubstr("no statement"));
}

}  // namespace
}  // namespace tessera::compiler::expression
