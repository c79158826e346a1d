#include "compiler/import/expression/print.h"

#include <gtest/gtest.h>

namespace tessera::compiler::expression {
namespace {

std::string printed(const std::string& text) {
  const auto program = parse(text);
  return program.ok() ? print(*program) : std::string(program.status().message());
}

TEST(PrintExpression, KeepsWhatThePrinterWrites) {
  const std::string text =
      "param R = 3;\n"
      "param S = R / 2 * 2;\n"
      "input A[4, R + 1]: f32;\n"
      "input B[7]: bf16;\n"
      "P[i, j] = i - R / 2 >= 0 && (j < 2 || !(j == 3)) ? A[i - R / 2, j] : 0 where i < 4 + 1, j < 4;\n"
      "Q[i] += -(P[i, j] - (1.5 - P[i, j])) / (2.0 / P[i, j]);\n"
      "M[] max= exp(-Q[i] * -Q[i]);\n"
      "T[i] = (i < 2 ? Q[i] : 1e-30) * 0.1;\n"
      "output M, T;\n";
  EXPECT_EQ(printed(text), text);
}

TEST(PrintExpression, NormalizesOtherSpellings) {
  EXPECT_EQ(printed("input A[2,3]; C[i] = sum((A[i,k]) + ((1)), axis = k);"),
            "input A[2, 3]: f32;\nC[i] += A[i, k] + 1;\n");
  EXPECT_EQ(printed("input A[2]; C[i] = (i > 0) & (i < 2) ? A[i - 1] : .5;"),
            "input A[2]: f32;\nC[i] = i > 0 && i < 2 ? A[i - 1] : 0.5;\n");
}

}  // namespace
}  // namespace tessera::compiler::expression
