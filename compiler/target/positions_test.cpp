#include "compiler/target/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/target/chip.h"
#include "compiler/target/difference.h"

namespace tessera::compiler {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::SizeIs;

constexpr char kText[] = R"(name: "edge"
family: SPATIAL
memory { name: "sram" capacity_bytes: 64 bandwidth_bytes_per_cycle: 32 shared_by: 1 }
units { name: "pe" count: 1 lanes: 1 frequency_ghz: 1 ops_per_cycle: 2 }
intrinsics {
  name: "dot"
  iterations { name: "r" extent: 4 reduction: true }
  operands { name: "c" dtype: DATA_TYPE_I32 }
  operands {
    name: "a"
    dtype: DATA_TYPE_I8
    subscripts: "q + r"
  }
  emit: "dot"
})";

TEST(Positions, AProblemIsFoundWhereItStands) {
  const PositionedTarget target = parseTargetWithPositions(kText).value();
  const std::vector<v1::TargetProblem> problems = validateTarget(target.target);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].field(), "intrinsics[0].operands[1].subscripts[0]");
  EXPECT_EQ(problems[0].message(), "'q' is no iteration of this intrinsic; accepted: r");
  EXPECT_EQ(target.at(problems[0].field()).line, 12);
  EXPECT_EQ(target.at(problems[0].field()).column, 5);
}

TEST(Positions, ProblemsOfFragmentsAndOfCopiesAreFoundWhereTheyStand) {
  const PositionedTarget target = parseTargetWithPositions(R"(name: "edge"
family: SPATIAL
memory { name: "sram" capacity_bytes: 64 bandwidth_bytes_per_cycle: 32 shared_by: 1
  filled_by {
    assembly: "cp.async"
    commit: "cp.async;"
    wait: "cp.async.wait_group $"
  }
}
units { name: "pe" count: 1 lanes: 1 frequency_ghz: 1 ops_per_cycle: 2 }
intrinsics {
  name: "dot"
  iterations { name: "r" extent: 4 reduction: true }
  operands { name: "c" dtype: DATA_TYPE_I32 }
  operands { name: "a" dtype: DATA_TYPE_I8 subscripts: "r" }
  emit: "dot"
  threads {
    threads: 32
    assembly: "dot.sync"
    fragments {
      operand: "a" registers: 1 register_type: "b32"
      lanes: "r / 2"
      slots: "r % 8"
    }
  }
})")
                                      .value();
  const std::vector<v1::TargetProblem> problems = validateTarget(target.target);
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].field(), "memory[0].filled_by.commit");
  EXPECT_EQ(target.at(problems[0].field()).line, 6);
  EXPECT_EQ(problems[1].field(), "intrinsics[0].threads.fragments[0].slots[0]");
  EXPECT_EQ(problems[1].message(), "goes beyond the 4 of the iteration");
  EXPECT_EQ(target.at(problems[1].field()).line, 23);
  EXPECT_EQ(target.at(problems[1].field()).column, 7);
}

TEST(Positions, WhatIsMissingStandsWhereItWouldBe) {
  const PositionedTarget target = parseTargetWithPositions(kText).value();
  EXPECT_EQ(target.at("intrinsics[0].iterations[0].name").line, 7);
  EXPECT_EQ(target.at("intrinsics[0].arithmetic.form").line, 5);
  EXPECT_EQ(target.at("registers.vector_bits").line, 1);
}

TEST(Difference, EntriesAreComparedByTheirName) {
  v1::Target left = *findBuiltinTarget("cascadelake"), right = left;
  EXPECT_THAT(differencesOf(left, right), SizeIs(0));
  right.mutable_memory()->DeleteSubrange(2, 1);
  right.mutable_memory(1)->set_capacity_bytes(1);
  const auto found = differencesOf(left, right);
  EXPECT_THAT(found, Contains(Field(&TargetDifference::field, "memory[L2].capacity_bytes")));
  EXPECT_THAT(found, Contains(Field(&TargetDifference::field, "memory[L3].line_bytes")));
  EXPECT_THAT(found, Not(Contains(Field(&TargetDifference::field, "memory[DRAM].line_bytes"))));
}

TEST(Difference, PricesOfTheFamilyCount) {
  const v1::Target left = *findBuiltinTarget("cascadelake");
  v1::Target right = left;
  const double usual = completedTarget(left).cost_parameters().overheads().phase_cycles();
  right.mutable_cost_parameters()->mutable_overheads()->set_phase_cycles(usual);
  EXPECT_THAT(differencesOf(left, right), SizeIs(0)) << "said or not, it is the same chip";
  right.mutable_cost_parameters()->mutable_overheads()->set_phase_cycles(usual + 1);
  const auto found = differencesOf(left, right);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].field, "cost_parameters.overheads.phase_cycles");
  const auto prices = costParametersOf(right);
  const auto price = std::find_if(prices.begin(), prices.end(),
                                  [](const CostParameterText& each) { return each.field == "overheads.phase_cycles"; });
  ASSERT_NE(price, prices.end());
  EXPECT_TRUE(price->own);
  EXPECT_EQ(std::count_if(prices.begin(), prices.end(), [](const CostParameterText& each) { return each.own; }), 1);
}

TEST(Difference, InstructionsOfSetsCount) {
  const auto found = differencesOf(*findBuiltinTarget("skylake-avx512"), *findBuiltinTarget("cascadelake"));
  EXPECT_THAT(found, Contains(Field(&TargetDifference::field, "intrinsics[vpdpbusds.512].emit")));
}

}  // namespace
}  // namespace tessera::compiler
