#include "compiler/intrinsic/nest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/standard_operators.h"
#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Nest, IsReadAndPrintedBack) {
  const Nest nest = parseNest("c", "O[n, p] += I[n, 2 * p + r - 1] * W[r]", {2, 5, 3}).value();
  EXPECT_EQ(print(nest), "O[n, p] += I[n, 2 * p + r - 1] * W[r]");
  EXPECT_FALSE(nest.loops[1].reduction);
  EXPECT_TRUE(nest.loops[2].reduction);
  EXPECT_THAT(shapeOf(nest, nest.accesses[0]), ElementsAre(2, 5));
  EXPECT_THAT(shapeOf(nest, nest.accesses[1]), ElementsAre(2, -1));
  EXPECT_THAT(shapeOf(nest, nest.accesses[2]), ElementsAre(3));
}

TEST(Nest, FaultsSayWhatWasFound) {
  const auto fault = [](const std::string& text) {
    return std::string(parseNest("x", text, {1, 1}).status().message());
  };
  EXPECT_THAT(fault("O[i]"), HasSubstr("no '+=' or '='"));
  EXPECT_THAT(fault("O[i] += A"), HasSubstr("'A' is no access"));
  EXPECT_THAT(fault("O[i] += A[i] + B[i]"), HasSubstr("found '+ B[i]'"));
  EXPECT_THAT(fault("O[i] += A[i * i]"), HasSubstr("column"));
  EXPECT_THAT(fault("O[i] += A[i]"), HasSubstr("1 loops and 2 extents"));
}

TEST(Nest, EveryStandardOperatorIsRead) {
  for (const StandardOperator& standard : standardOperators()) {
    const auto nest = parseNest(standard.name, standard.definition, standard.extents);
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
  EXPECT_TRUE(dot.loops[1].reduction);
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
