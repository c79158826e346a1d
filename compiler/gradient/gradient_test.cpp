#include "compiler/gradient/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/gradient/testing/adjoint_check.h"
#include "compiler/import/expression/print.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::gradient {
namespace {

using ::testing::HasSubstr;

std::string gradientText(const std::string& text, const GradientOptions& options = {}) {
  const auto program = expression::parse(text);
  if (!program.ok()) return std::string(program.status().message());
  const auto gradient = gradientOf(*program, options);
  return gradient.ok() ? expression::print(gradient->program) : std::string(gradient.status().message());
}

/// Both forms, on integers if the expression is linear in each input, and on reals.
void expectGradient(const std::string& text, bool exact = true) {
  for (const bool pads : {true, false}) {
    const auto error = testing::checkAdjoint(text, {.pads = pads}, {.seed = 7, .exact = exact});
    EXPECT_TRUE(error.ok()) << error.status();
  }
}

TEST(Gradient, OfAMatrixProductIsTwoMatrixProducts) {
  const std::string text = gradientText("input A[4, 5], B[5, 6];\nC[i, j] += A[i, k] * B[k, j];\n");
  EXPECT_EQ(text,
            "input A[4, 5]: f32;\n"
            "input B[5, 6]: f32;\n"
            "input dC[4, 6]: f32;\n"
            "dA[i, k] += dC[i, j] * B[k, j];\n"
            "dB[k, j] += dC[i, j] * A[i, k];\n"
            "output dA, dB;\n");
}

TEST(Gradient, OfAConvolutionReadsAPaddedGradientWithoutConditions) {
  const std::string text = gradientText("input X[8], W[3];\nY[p] += X[p + r] * W[r];\n", {.inputs = {"X"}});
  EXPECT_THAT(text, HasSubstr("dX[z0] += dY_padded[z0 + r] * W_reversed[r];"));
  EXPECT_THAT(text, HasSubstr("dY_padded[i0] = i0 >= 2 && i0 < 8 ? dY[i0 - 2] : 0 where i0 < 10;"));
  const std::string guarded =
      gradientText("input X[8], W[3];\nY[p] += X[p + r] * W[r];\n", {.inputs = {"X"}, .pads = false});
  EXPECT_THAT(guarded, HasSubstr("dX[z0] += z0 - r >= 0 && z0 - r < 6 ? dY[z0 - r] * W[r] : 0"));
}

TEST(Gradient, OfStridesHasALoopForEachPhaseAndNoWastedIteration) {
  const std::string text = gradientText("input X[9], W[3];\nY[p] += X[2 * p + r] * W[r];\n", {.inputs = {"X"}});
  EXPECT_THAT(text, HasSubstr("dX_phases"));
  EXPECT_THAT(text, HasSubstr("r < 2"));  // of three taps, each phase has at most two
  expectGradient("input X[9], W[3];\nY[p] += X[2 * p + r] * W[r];\n");
}

TEST(Gradient, PairsQuotientsWithRemaindersAndFreesTheOthers) {
  const std::string paired = gradientText("input X[3, 4];\nY[i] = X[i / 4, i % 4] where i < 12;\n");
  EXPECT_THAT(paired, HasSubstr("dX[z0, z1] = dY[4 * z0 + z1]"));
  const std::string freed = gradientText("input X[3];\nY[i] = X[i / 4] where i < 12;\n");
  EXPECT_THAT(freed, HasSubstr("dX[z0] += dY[4 * z0 + i]"));
  expectGradient(
      "input X[8, 3, 2];\nY[c, p, q] = X[c + (p % 2 * 2 + q % 2) * 2, p / 2, q / 2]"
      " where c < 2, p < 6, q < 4;\n");
}

TEST(Gradient, StatesDivisibilityWhereNoIterationReadsAnElement) {
  EXPECT_THAT(gradientText("input X[9];\nY[i] = X[2 * i];\n"), HasSubstr("dX[z0] = z0 % 2 == 0 ? dY[z0 / 2] : 0"));
  EXPECT_THAT(gradientText("input X[5, 5];\nY[i] = X[i, i];\n"), HasSubstr("== 0 ? dY["));
  expectGradient("input X[5, 5];\nY[i] = X[i, i];\n");
}

TEST(Gradient, OfConditionsOnIndicesTurnsPaddingAround) {
  const std::string text = gradientText("input X[8];\nP[l] = (l >= 1) & (l < 9) ? X[l - 1] : 0 where l < 10;\n");
  EXPECT_THAT(text, HasSubstr("dX[z0] = dP[z0 + 1]"));
  expectGradient(
      "input X[4], W[3];\nY[i] = sum((i - r) % 2 == 0 && i - r >= 0 && (i - r) / 2 < 4"
      " ? X[(i - r) / 2] * W[r] : 0) where i < 9, r < 3;\n");
}

TEST(Gradient, OfTheOperatorsOfTheThesis) {
  const std::string padded =
      "P[n, c, y, x] = (y >= 1) & (y < 5) & (x >= 1) & (x < 5) ? X[n, c, y - 1, x - 1] : 0 where y < 6, x < 6;";
  const std::string dilated =
      "E[n, c, y, x] = (y % 2 == 0) & (x % 2 == 0) ? X[n, c, y / 2, x / 2] : 0 where y < 5, x < 5;"
      "P[n, c, y, x] = (y >= 1) & (y < 6) & (x >= 1) & (x < 6) ? E[n, c, y - 1, x - 1] : 0 where y < 7, x < 7;";
  for (const std::string& text :
       {std::string("input A[7, 5], x[5]; y[i] += A[i, k] * x[k];"),
        std::string("input A[4, 5], B[3, 5, 6], C[4, 6]; O[i, j] += A[i, k] * B[j, k, l] * C[i, l];"),
        std::string("input X[1, 2, 3], W[3, 2, 3]; E[n, c, l] = l % 2 == 0 ? X[n, c, l / 2] : 0 where l < 5;"
                    "P[n, c, l] = (l >= 1) & (l < 6) ? E[n, c, l - 1] : 0 where l < 7;"
                    "Y[n, k, l] += P[n, c, l + r] * W[k, c, r];"),
        "input X[1, 2, 4, 4], W[3, 2, 3, 3];" + padded + "Y[n, k, y, x] += P[n, c, y + r, x + s] * W[k, c, r, s];",
        "input X[1, 2, 3, 3], W[2, 2, 3, 3];" + dilated + "Y[n, k, y, x] += P[n, c, y + r, x + s] * W[k, c, r, s];",
        std::string("input X[1, 2, 4, 3, 4], W[2, 2, 2, 2, 2];"
                    "Y[n, k, z, y, x] += X[n, c, z + q, y + r, x + s] * W[k, c, q, r, s];"),
        std::string("input X[1, 2, 2, 4, 4], W[2, 3, 2, 3, 3];"
                    "Y[n, g, k, y, x] += X[n, g, c, y + r, x + s] * W[g, k, c, r, s];"),
        "input X[1, 2, 4, 4], W[2, 2, 2];" + padded + "Y[n, c, y, x] += P[n, c, y + r, x + s] * W[c, r, s];",
        "input X[1, 2, 4, 4], W[2, 2, 2, 2];" + padded +
            "Y[n, k, y, x] += P[n, c, y + 2 * r, x + 2 * s] * W[k, c, r, s];",
        std::string("input X[4, 3, 8], W[2, 3, 8]; Y[n, p, i] += X[n, q, j] * W[p, q, (i - j + 8) % 8] where i < 8;"),
        "input X[1, 9, 4, 4];" + padded + "Y[n, c, y, x] = P[n, c, y + c % 3, x + c / 3 % 3] where y < 4, x < 4;"})
    expectGradient(text);
}

TEST(Gradient, OfNonlinearBodies) {
  for (const char* text :
       {"input A[5], B[5];\nC[i] = exp(A[i]) / (B[i] + 2.0);\n",
        "input A[5], B[5];\nC[i] = A[i] < 0 || !(B[i] != 1) ? -A[i] : A[i] > 1 && B[i] <= 3 ? tanh(B[i])"
        " : sqrt(exp(A[i]));\n",
        "input A[3, 4];\nM[i] max= A[i, k] * A[i, k];\n", "input A[3, 4], B[4];\nM[i] *= A[i, k] + B[k];\n",
        "input A[7];\nM[i] min= A[2 * i + r] where r < 3;\n",
        "input A[5], B[5];\nC[i] = pow(A[i], B[i]) + max(A[i], B[i]) * abs(A[i] - 1.0) + erf(A[i]) * rsqrt(B[i]);\n",
        "input Q[2, 5, 3], K[2, 5, 3], V[2, 5, 3];\nS[h, i, l] = sum(Q[h, i, k] * K[h, l, k]);\n"
        "Max[h, i] = max(S[h, i, l], axis = l);\nExp[h, i, l] = exp(S[h, i, l] - Max[h, i]);\n"
        "Sum[h, i] += Exp[h, i, l];\nA[h, i, j] += Exp[h, i, l] / Sum[h, i] * V[h, l, j];\noutput A, Sum;\n"})
    expectGradient(text, false);
}

TEST(Gradient, ProductsHaveADerivativeAtZero) {
  // A division of the product by the factor would be 0 / 0.
  expectGradient("input A[2, 3];\nP[i] *= A[i, k];\n", true);
}

TEST(Gradient, KeepsNamesOfTheProgramApartFromItsOwn) {
  const std::string text =
      "param r = 2;\nparam z0 = 3;\ninput M_values[3, 4], dM[4];\n"
      "M[i] max= M_values[i, k] * dM[k];\nO[i] = M[i] * M[i] where i < z0;\n";
  const std::string gradient = gradientText(text);
  EXPECT_THAT(gradient, HasSubstr("M_values_[i, k] = M_values[i, k] * dM[k]"));
  EXPECT_THAT(gradient, HasSubstr("output dM_values, ddM;"));
  expectGradient(text, false);
}

TEST(Gradient, SumsWhatSeveralStatementsRead) {
  expectGradient("input A[4, 4];\nB[i, j] = A[i, j] + 2 * A[j, i];\nC[i] += A[i, k] + B[k, i];\noutput B, C;\n");
  EXPECT_THAT(gradientText("input A[4], B[4]: f32;\nC[i] = B[i];\n"), HasSubstr("dA[z0] = f32(0) where z0 < 4;"));
  EXPECT_THAT(gradientText("input A[4]: f16;\nC[i] = f32(A[i]) * f32(A[i]);\n"), HasSubstr("dA[z0] = f16("));
}

TEST(Gradient, FaultsNameThePlace) {
  EXPECT_THAT(gradientText("input A[4]: f32;\nI[] max= A[i] > 1 ? i : 0;\n"),
              HasSubstr("line 2, column 1: this output is of an integer type"));
  EXPECT_THAT(gradientText("input A[4]: i32;\nB[i] = A[i];\n"), HasSubstr("no input has a float type"));
  EXPECT_THAT(gradientText("input A[4]: i32; input B[4]: f32;\nC[i] = B[i];\n", {.inputs = {"A"}}),
              HasSubstr("line 1, column 7: an integer input has no gradient: 'A'"));
  EXPECT_THAT(gradientText("input A[4], B[4];\nC[i] = A[i] * f32(i32(B[i]));\n"),
              HasSubstr("line 2, column 19: a cast to an integer type has no derivative"));
  EXPECT_THAT(gradientText("input A[16];\nC[i] = A[i * i] where i < 4;\n"), HasSubstr("line 2, column 14"));
  EXPECT_THAT(gradientText("input A[N];\nC[i] = A[i];\n"), HasSubstr("write `param N = ...;` above"));
  EXPECT_THAT(gradientText("input A[4];\nC[i] = A[i];\n", {.inputs = {"X"}}),
              HasSubstr("there is no input 'X' to differentiate by"));
}

}  // namespace
}  // namespace tessera::compiler::gradient
