#include "compiler/intrinsic/nest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/standard_operators.h"
#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::HasSubstr;

TEST(Nest, EveryStandardOperatorIsRead) {
  for (const StandardOperator& standard : standardOperators()) {
    const auto nest = loopnest::parse(standard.name, standard.definition, standard.extents);
    ASSERT_TRUE(nest.ok()) << standard.name << nest.status();
    for (const Access& access : nest->accesses) {
      EXPECT_THAT(shapeOf(*nest, access), ::testing::Not(::testing::Contains(-1))) << standard.name;
    }
  }
}

TEST(Nest, AnInstructionIsANestAsWell) {
  const Nest dot = nestOf(testing::builtinInstruction("cascadelake", "vpdpbusd.512")).value();
  EXPECT_EQ(print(dot), "acc[i] += a[i, r] * b[i, r]");
  EXPECT_EQ(dot.loops[1].extent, 4);
  EXPECT_TRUE(dot.isReduction(1));
  EXPECT_EQ(formOf(dot), v1::Intrinsic::Arithmetic::MULTIPLY_ADD);
}

TEST(Nest, FormsFollowFromBodies) {
  using Arithmetic = v1::Intrinsic::Arithmetic;
  const std::pair<const char*, Form> cases[] = {
      {"O[i] += A[i, k] * B[k]", Arithmetic::MULTIPLY_ADD},
      {"O[i] = A[i, k] * B[k]", Arithmetic::MULTIPLY},
      {"O[i] += A[i + k]", Arithmetic::ADD},
      {"O[i] max= A[i + k]", Arithmetic::MAXIMUM},
      {"O[i] min= A[i + k]", Arithmetic::MINIMUM},
      {"O[i] = max(A[i + k])", Arithmetic::FORM_UNSPECIFIED},
      {"O[i] max= A[i + k] * B[k]", Arithmetic::FORM_UNSPECIFIED},
      {"O[i] *= A[i + k]", Arithmetic::FORM_UNSPECIFIED},
      {"O[i] += A[i, k] + B[k]", Arithmetic::FORM_UNSPECIFIED},
      {"O[i] += A[i, k]; P[i] = O[i]", Arithmetic::FORM_UNSPECIFIED},
  };
  for (const auto& [text, form] : cases) {
    const Nest nest = loopnest::parse("n", text, {4, 3}).value();
    EXPECT_EQ(formOf(nest), form) << text;
    EXPECT_EQ(checkMappable(nest).ok(), form != Arithmetic::FORM_UNSPECIFIED) << text;
    if (form == Arithmetic::FORM_UNSPECIFIED) continue;
    Nest other = nest;
    other.statements[0].body = bodyOf(form, nest.accesses.size() - 1, true);
    EXPECT_EQ(print(other), text);
  }
  EXPECT_THAT(std::string(checkMappable(loopnest::parse("n", "O[i / 2] = A[i]", {4}).value()).message()),
              HasSubstr("a subscript has a quotient or remainder"));
}

TEST(Nest, AModelsNestIsReadAndAnObstacleIsAnError) {
  v1::OperatorNest described;
  described.set_form(v1::Intrinsic::Arithmetic::MULTIPLY_ADD);
  auto* loop = described.add_loops();
  loop->set_name("i");
  loop->set_extent(4);
  for (const char* name : {"O", "A"}) {
    described.add_accesses()->set_name(name);
    described.mutable_accesses()->rbegin()->add_subscripts("i");
  }
  EXPECT_EQ(print(nestOf(described).value()), "O[i] += A[i]");
  described.mutable_accesses(1)->set_subscripts(0, "x");
  EXPECT_EQ(nestOf(described).status().code(), absl::StatusCode::kInvalidArgument);
  described.set_obstacle("reads an index");
  EXPECT_EQ(nestOf(described).status().message(), "reads an index");
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
