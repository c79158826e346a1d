#include "compiler/loopnest/nest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/loopnest/body.h"

namespace tessera::compiler::loopnest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAttention =
    "S[m, l] += Q[m, k] * K[l, k]; M[m] = max(S[m, l]); P[m, l] = exp(S[m, l] - M[m]); D[m] = P[m, l]; "
    "R[m, n] = P[m, l] * V[l, n]; O[m, n] = R[m, n] / D[m]";

std::string fault(const std::string& text, const std::vector<int64_t>& extents) {
  return std::string(parse("x", text, extents).status().message());
}

TEST(Nest, IsReadAndPrintedBack) {
  const Nest nest = parse("c", "O[n, p] += I[n, 2 * p + r - 1] * W[r]", {2, 5, 3}).value();
  EXPECT_EQ(print(nest), "O[n, p] += I[n, 2 * p + r - 1] * W[r]");
  EXPECT_FALSE(nest.isReduction(1));
  EXPECT_TRUE(nest.isReduction(2));
  EXPECT_THAT(shapeOf(nest, nest.accesses[0]), ElementsAre(2, 5));
  EXPECT_THAT(shapeOf(nest, nest.accesses[1]), ElementsAre(2, -1));
  EXPECT_THAT(shapeOf(nest, nest.accesses[2]), ElementsAre(3));
}

TEST(Nest, StatementsShareLoopsAndTensors) {
  const Nest nest = parse("attention", kAttention, {6, 5, 4, 3}).value();
  EXPECT_EQ(print(nest), kAttention);
  ASSERT_EQ(nest.statements.size(), 6U);
  const int l = nest.loopNamed("l");
  EXPECT_FALSE(nest.isReduction(l, 0));
  EXPECT_TRUE(nest.isReduction(l, 1));
  EXPECT_FALSE(nest.isReduction(nest.loopNamed("k"), 1));  // not among its loops
  // S and P are written once and read twice through one access each; Q, K, V and O are no intermediates.
  EXPECT_EQ(nest.accesses.size(), 9U);
  std::string intermediates;
  for (int access = 0; access < static_cast<int>(nest.accesses.size()); ++access)
    if (nest.isIntermediate(access)) intermediates += nest.accesses[access].name;
  EXPECT_EQ(intermediates, "SMPDR");
}

TEST(Nest, BodiesAreReadAndPrintedBack) {
  for (const char* text : {"O[i] = A[i] - (B[i] - C[i])", "O[i] = (A[i] + B[i]) * -C[i]", "O[i] = A[i] / (B[i] * C[i])",
                           "O[i] = max(A[i], 0.5) + 2 * exp(-A[i])", "O[i] max= A[i + r]", "O[i] = min(A[i + r] * 2)",
                           "O[i] *= A[i + r]", "O[i / 2 % 3] = A[i]", "O[i] += A[i] * A[i]"}) {
    const bool windowed = std::string(text).find("+ r") != std::string::npos;
    const auto nest = parse("n", text, windowed ? std::vector<int64_t>{6, 3} : std::vector<int64_t>{6});
    ASSERT_TRUE(nest.ok()) << text << nest.status();
    EXPECT_EQ(print(*nest), text);
  }
  const Nest square = parse("s", "O[i] += A[i] * A[i]", {4}).value();
  EXPECT_THAT(square.statements[0].inputs, ElementsAre(1, 2));
  EXPECT_TRUE(isProduct(square.statements[0]));
  EXPECT_FALSE(isProduct(parse("s", "O[i] += A[i] + A[i]", {4})->statements[0]));
  EXPECT_EQ(productOf(3), parse("s", "O[i] = A[i] * B[i] * C[i]", {4})->statements[0].body.operations);
}

TEST(Nest, SyntaxFaultsSayWhatWasFound) {
  EXPECT_THAT(fault("O[i]", {1}), HasSubstr("no '+=' or '='"));
  EXPECT_THAT(fault("O[i] += A", {1}), HasSubstr("'A' is no access"));
  EXPECT_THAT(fault("O[i] += A[i", {1}), HasSubstr("'A[i' is no access"));
  EXPECT_THAT(fault("O[i] += A[i] B[i]", {1}), HasSubstr("column 14: found 'B[i]'"));
  EXPECT_THAT(fault("O[i] P[i] = A[i]", {1}), HasSubstr("column 6: found 'P[i] = A[i]'"));
  EXPECT_THAT(fault("O[i] += A[i * i]", {1}), HasSubstr("column"));
  EXPECT_THAT(fault("O[i] = sine(A[i])", {1}), HasSubstr("found 'sine(A[i])', accepted is an access"));
  EXPECT_THAT(fault("O[i] = exp(A[i], B[i])", {1}), HasSubstr("one argument"));
  EXPECT_THAT(fault("O[i] = max(A[i]) + 1", {1}), HasSubstr("two arguments"));
  EXPECT_THAT(fault("O[i] = " + std::string(100, '(') + "A[i]", {1}), HasSubstr("no more than 64"));
  EXPECT_THAT(fault("O[i] += A[i]", {1, 1}), HasSubstr("1 loops and 2 extents"));
  EXPECT_THAT(fault("O[i] += A[i]", {0}), HasSubstr("loop 'i' has extent 0"));
  EXPECT_THAT(fault("O[i] = A[i]; P[i] = O[i, i]", {4}), HasSubstr("tensor 'O' has 1 and 2 dimensions"));
}

TEST(Nest, ValidityNamesThePlace) {
  const Nest nest = parse("product", "O[i, j] += A[i, k] * B[k, j]", {2, 3, 4}).value();
  EXPECT_TRUE(validate(nest).ok());
  const auto changed = [&](auto&& change) {
    Nest copy = nest;
    change(copy);
    return std::string(validate(copy).message());
  };
  EXPECT_THAT(changed([](Nest& n) { n.statements.clear(); }), HasSubstr("'product': has no statement"));
  EXPECT_THAT(changed([](Nest& n) { n.loops[1].multiple = 0; }), HasSubstr("loop 'j' has tiles"));
  EXPECT_THAT(changed([](Nest& n) { n.loops[1].min_extent = 4; }),
              HasSubstr("loop 'j' has at least 4 iterations of 3"));
  EXPECT_THAT(changed([](Nest& n) { n.accesses[1].subscripts[0].terms[0].loop = 3; }),
              HasSubstr("tensor 'A' names a loop"));
  EXPECT_THAT(changed([](Nest& n) { n.accesses[1].subscripts[0].digits.push_back({.terms = {{0, 1}}, .divisor = 0}); }),
              HasSubstr("tensor 'A' divides by 0"));
  EXPECT_THAT(changed([](Nest& n) { n.statements[0].inputs[1] = 7; }), HasSubstr("statement 'O' names a tensor"));
  EXPECT_THAT(changed([](Nest& n) { n.statements[0].loops.pop_back(); }),
              HasSubstr("statement 'O' accesses 'A' by the loop 'k', which is not among its own"));
  EXPECT_THAT(changed([](Nest& n) { n.statements[0].body.combine = Combine::kAssign; }),
              HasSubstr("statement 'O' assigns an element several times"));
  EXPECT_THAT(changed([](Nest& n) { n.statements[0].body.operations[0].operands[1] = 2; }),
              HasSubstr("statement 'O' computes mul of 2 values; 2 of its 2 earlier ones"));
  EXPECT_THAT(changed([](Nest& n) { n.statements[0].body.operations[0].name = "sinh"; }),
              HasSubstr("unknown operation 'sinh'"));
}

TEST(Nest, AnAccessIsOneLinearOffset) {
  const Nest nest = parse("c", "O[n, p] += I[n, 2 * p + r + 1] * W[r]", {2, 5, 3}).value();
  const Offset offset = offsetOf(nest, nest.accesses[1]);
  EXPECT_THAT(offset.strides, ElementsAre(12, 2, 1));  // rows of 1 + 2 * 4 + 2 + 1 elements
  EXPECT_EQ(offset.constant, 1);
}

}  // namespace
}  // namespace tessera::compiler::loopnest
