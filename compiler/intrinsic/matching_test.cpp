#include "compiler/intrinsic/matching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/physical_mapping.h"
#include "compiler/intrinsic/standard_operators.h"
#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using testing::builtinInstruction;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

size_t countOf(const std::string& op, const v1::Intrinsic& intrinsic, bool any_order = false) {
  const Nest software = nestOf(*findStandardOperator(op));
  return enumerateMappings(software, nestOf(intrinsic).value(), {.any_order = any_order}).matchings.size();
}

TEST(Matching, TensorCoreHasTheMappingsOfTable53) {
  const v1::Intrinsic wmma = builtinInstruction("sm_70", "wmma.m16n16k16.f16.f32");
  for (const StandardOperator& standard : standardOperators()) {
    EXPECT_EQ(countOf(standard.name, wmma), standard.thesis_count) << standard.name;
  }
}

TEST(Matching, ExchangedSourcesOfASquareInstructionAreNoNewMappings) {
  const v1::Intrinsic wmma = builtinInstruction("sm_70", "wmma.m16n16k16.f16.f32");
  for (const StandardOperator& standard : standardOperators()) {
    EXPECT_EQ(countOf(standard.name, wmma, true), standard.thesis_count) << standard.name;
  }
  // 32 x 8 is a different mapping from 8 x 32.
  EXPECT_EQ(countOf("C2D", builtinInstruction("sm_70", "wmma.m32n8k16.f16.f32"), true), 70u);
}

TEST(Matching, EnginesHaveTheseMappingsOfC3D) {
  EXPECT_EQ(countOf("C3D", builtinInstruction("axpy-engine", "axpy")), 15u);
  EXPECT_EQ(countOf("C3D", builtinInstruction("gemv-engine", "gemv")), 180u);
  EXPECT_EQ(countOf("C3D", builtinInstruction("gemv-engine", "gemv"), true), 195u);
}

std::vector<std::string> textsOf(const Nest& software, const v1::Intrinsic& intrinsic) {
  const Nest instruction = nestOf(intrinsic).value();
  const Mappings mappings = enumerateMappings(software, instruction);
  std::vector<std::string> texts;
  for (const Matching& matching : mappings.matchings) {
    texts.push_back(mappingText(mappings.software, instruction, matching));
  }
  return texts;
}

TEST(Matching, TheRowsOfTable54AreAmongThem) {
  const auto texts = textsOf(loopnest::parse("C0", "O[n, k, p, q] += I[n, c, 2 * p + r, 2 * q + s] * W[k, c, r, s]",
                                             {16, 64, 112, 112, 3, 7, 7})
                                 .value(),
                             builtinInstruction("sm_70", "wmma.m16n16k16.f16.f32"));
  EXPECT_THAT(texts, Contains("[i, j, r] <- [(n * 112 + q) % 16, k % 16, (c * 49 + r * 7 + s) % 16]"));
  EXPECT_THAT(texts, Contains("[i, j, r] <- [(n * 112 + q) % 16, k % 16, (c * 7 + r) % 16]"));
  // Both index one dimension of the image: no match point, only part of unions.
  EXPECT_THAT(texts, Not(Contains("[i, j, r] <- [p % 16, k % 16, r % 16]")));
}

TEST(Matching, AColumnThatIsMissingIsOneWide) {
  const auto texts = textsOf(nestOf(*findStandardOperator("GMV")), testing::smallMatrixUnit());
  EXPECT_THAT(texts, ::testing::ElementsAre("[i, j, r] <- [i % 2, one.j % 2, k % 2]"));
}

TEST(Matching, WhatIsNoSumOfProductsIsNotMapped) {
  const v1::Intrinsic unit = testing::smallMatrixUnit();
  EXPECT_THAT(textsOf(loopnest::parse("scale", "O[i, j] += A[i, j] * B[j]", {4, 4}).value(), unit), IsEmpty());
  EXPECT_THAT(textsOf(loopnest::parse("sum", "O[i] += A[i, k]", {4, 4}).value(), unit), IsEmpty());
  EXPECT_THAT(textsOf(loopnest::parse("product", "O[i, j] = A[i, k] * B[k, j]", {4, 4, 4}).value(), unit), IsEmpty());
}

TEST(Matching, TypesDecideTheOrderOfSourcesWhereTheyMust) {
  Nest software = nestOf(*findStandardOperator("GMM"));
  software.accesses[0].dtype = v1::DATA_TYPE_I32;
  software.accesses[1].dtype = v1::DATA_TYPE_I8;  // rows are signed, columns not
  software.accesses[2].dtype = v1::DATA_TYPE_U8;
  const Nest dot = nestOf(builtinInstruction("cascadelake", "vpdpbusd.512.broadcast")).value();
  EXPECT_THAT(enumerateMappings(software, dot, {.same_types = true}).matchings, IsEmpty());
  const Mappings turned = enumerateMappings(software, dot, {.any_order = true, .same_types = true});
  ASSERT_EQ(turned.matchings.size(), 1u);
  EXPECT_EQ(turned.matchings[0].source, (std::vector<int>{2, 1}));
}

TEST(Matching, AWindowIsMatchedToAWindowOfItsProportions) {
  const v1::Intrinsic window = testing::smallWindow();
  EXPECT_THAT(textsOf(loopnest::parse("a", "O[n, p] += I[n, p + r] * W[r]", {2, 8, 2}).value(), window),
              ::testing::ElementsAre("[w, s] <- [p % 4, r % 2]"));
  EXPECT_THAT(textsOf(loopnest::parse("b", "O[n, p] += I[n, 2 * p + r] * W[r]", {2, 8, 2}).value(), window), IsEmpty());
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
