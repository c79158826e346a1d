#include "compiler/backends/spatial/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/testing/chips.h"
#include "compiler/intrinsic/standard_operators.h"
#include "compiler/target/element_text.h"
#include "compiler/target/instruction_sets.h"

namespace tessera::compiler::simulator {
namespace {

using ::testing::HasSubstr;
using testing::nestOf;

/// Ones, primes and tails: in general, sizes that an instruction's size does not divide.
loopnest::Nest odd(const intrinsic::StandardOperator& standard, std::mt19937_64& random) {
  constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 11, 17};
  std::vector<int64_t> extents;
  int64_t points = 1;
  for (size_t i = 0; i < standard.extents.size(); ++i) {
    extents.push_back(kSizes[random() % (points > 3000 ? 2 : std::size(kSizes))]);
    points *= extents.back();
  }
  // The window that is walked backwards has a fixed size of four.
  if (std::string(standard.name) == "T2D") extents[5] = extents[6] = 4;
  return loopnest::parse(standard.name, standard.definition, extents).value();
}

void expectRight(const loopnest::Nest& nest, const v1::Target& chip, const std::string& instruction) {
  SCOPED_TRACE(absl::StrCat(chip.name(), " ", instruction, " ", print(nest)));
  for (const loopnest::Loop& loop : nest.loops) SCOPED_TRACE(absl::StrCat(loop.name, " < ", loop.extent));
  const auto answer = simulate(nest, chip, {.instruction = instruction, .typed = false, .seed = 7});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->unchecked, "");
  EXPECT_TRUE(answer->checked.right()) << answer->checked.first_wrong << "\n" << print(answer->program);
  EXPECT_TRUE(answer->checked.whole());
  EXPECT_GT(answer->timeline.cycles, 0);
  EXPECT_LE(answer->timeline.utilization, 1.0 + 1e-9);
  int64_t calls = 1;
  for (const Dimension& dimension : answer->program.dimensions) calls *= dimension.blocks;
  EXPECT_EQ(answer->timeline.calls, calls);
}

class OnChips : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(OnChips, OddOperatorsAreComputedRight) {
  const auto& [chip_name, instruction] = GetParam();
  const v1::Target& chip = *findBuiltinTarget(chip_name);
  std::mt19937_64 random(11);
  int mapped = 0;
  for (const intrinsic::StandardOperator& standard : intrinsic::standardOperators()) {
    for (int round = 0; round < 2; ++round) {
      const loopnest::Nest nest = odd(standard, random);
      // Every instruction supports a product of two numbers and a sum, but not a plain window or a diagonal.
      if (!candidatesOf(nest, chip, {.instruction = instruction, .typed = false}).ok()) continue;
      ++mapped;
      expectRight(nest, chip, instruction);
    }
  }
  EXPECT_GE(mapped, 20);
  expectRight(nestOf("O[n, k, p, q] += I[n, c, 2 * p + r, 3 * q + s] * W[k, c, r, s]", {2, 5, 4, 3, 3, 3, 2}), chip,
              instruction);
  expectRight(
      nestOf("O[n, g, k, p, q] += I[n, g, c, 2 * p + 3 * r, q + 2 * s] * W[g, k, c, r, s]", {1, 3, 5, 4, 3, 7, 3, 2}),
      chip, instruction);
}

INSTANTIATE_TEST_SUITE_P(Builtin, OnChips,
                         ::testing::Values(std::pair{"ascend-910-like", "cube.f16"},
                                           std::pair{"ascend-910-like", "cube.s8"}, std::pair{"axpy-engine", "axpy"},
                                           std::pair{"gemv-engine", "gemv"}, std::pair{"conv-engine", "conv"},
                                           std::pair{"mali-g76", "arm_dot_acc"},
                                           std::pair{"sm_80", "mma.m16n8k16.f16.f32"},
                                           std::pair{"cascadelake", "vpdpbusd.512"}),
                         [](const auto& info) {
                           std::string name = info.param.second;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

TEST(Simulate, ASystolicArrayOfTwoMillionProducts) {
  const v1::Target& chip = *findBuiltinTarget("systolic-128");
  for (const char* instruction : {"systolic.s8", "systolic.bf16"}) {
    expectRight(nestOf("O[i, j] += A[i, k] * B[k, j]", {130, 1, 257}), chip, instruction);
    expectRight(nestOf("O[n, k, p, q] += I[n, c, 2 * p + r, q + s] * W[k, c, r, s]", {1, 67, 7, 5, 5, 3, 3}), chip,
                instruction);
  }
}

TEST(Simulate, EveryMappingInEveryMannerComputesTheSame) {
  const v1::Target chip = testing::chipOf(testing::madeUpChip());
  const loopnest::Nest nest =
      nestOf("O[n, k, p, q] += I[n, c, 2 * p + r, q + 2 * s] * W[k, c, r, s]", {2, 3, 3, 5, 3, 2, 3});
  for (const char* instruction : {"mul.4x2x4", "half.3x5"}) {
    const Candidates candidates = candidatesOf(nest, chip, {.instruction = instruction, .typed = false}).value();
    EXPECT_GE(candidates.choices.size(), 35u);
    for (const intrinsic::Choice& choice : candidates.choices) {
      for (const bool reductions_innermost : {false, true}) {
        for (const bool overlap : {false, true}) {
          const Program program = lower(choice, chip, {reductions_innermost, overlap}).value();
          const Checked checked = check(program, 5, 1 << 20).value();
          ASSERT_TRUE(checked.right()) << checked.first_wrong << "\n" << print(program);
          ASSERT_TRUE(checked.whole());
        }
      }
    }
  }
}

TEST(Simulate, LayersOfNetworksFitEveryMemory) {
  for (const auto& [chip, instruction] :
       {std::pair{"ascend-910-like", "cube.f16"}, {"conv-engine", "conv"}, {"systolic-128", "systolic.bf16"}}) {
    for (const intrinsic::StandardOperator& standard : intrinsic::standardOperators()) {
      const loopnest::Nest nest = intrinsic::nestOf(standard);
      const auto candidates =
          candidatesOf(nest, *findBuiltinTarget(chip), {.instruction = instruction, .typed = false});
      if (!candidates.ok()) continue;
      for (const bool overlap : {false, true}) {
        const auto program = lower(candidates->choices.front(), *findBuiltinTarget(chip),
                                   {.reductions_innermost = false, .overlap = overlap});
        ASSERT_TRUE(program.ok()) << chip << " " << standard.name << " " << program.status();
        EXPECT_TRUE(checkBuffers(*program).ok()) << standard.name << " " << checkBuffers(*program);
      }
    }
  }
}

TEST(Simulate, ExtremaKeepPaddingOut) {
  v1::Target chip = testing::chipOf(testing::madeUpChip());
  const loopnest::Nest pool = nestOf("O[p, c] max= I[3 * p + r, c]", {5, 4, 3});
  expectRight(pool, chip, "max.3x2");
  auto& transfer = *chip.mutable_intrinsics(2)->add_transfers();
  transfer.set_operand("x");
  transfer.set_from("memory");
  transfer.set_to("near");
  transfer.add_strides("free");
  transfer.add_strides("1");
  transfer.set_pads(true);
  EXPECT_THAT(std::string(simulate(pool, chip, {.instruction = "max.3x2", .typed = false}).status().message()),
              HasSubstr("loads of x pad with zeros, which may win"));
}

TEST(Simulate, EnergyIsWhatTheDescriptionSaysOfEachByte) {
  const v1::Target chip = testing::chipOf(testing::madeUpChip());
  const Simulation answer =
      simulate(nestOf("O[i, j] += A[i, k] * B[k, j]", {9, 5, 13}), chip, {.instruction = "mul.4x2x4", .typed = false})
          .value();
  double expected = 0;
  for (const Traffic& traffic : answer.timeline.traffic) {
    const double each = traffic.memory == "near"   ? 0.5
                        : traffic.memory == "far"  ? 2
                        : traffic.memory == "DRAM" ? 60
                                                   : 0;
    expected += each * static_cast<double>(traffic.read_bytes + traffic.written_bytes);
  }
  EXPECT_GT(expected, 0);
  EXPECT_DOUBLE_EQ(answer.timeline.picojoules, expected);
}

TEST(Simulate, TypesOfAnOperatorAreItsOwn) {
  const v1::Target& chip = *findBuiltinTarget("ascend-910-like");
  loopnest::Nest nest = nestOf("O[i, j] += A[i, k] * B[k, j]", {33, 17, 40});
  const Simulation floats = simulate(nest, chip).value();  // f32: converted
  EXPECT_TRUE(floats.converted);
  EXPECT_EQ(floats.program.choice.intrinsic.name(), "cube.f16");
  nest.accesses[0].dtype = v1::DATA_TYPE_I32;
  nest.accesses[1].dtype = nest.accesses[2].dtype = v1::DATA_TYPE_I8;
  const Simulation bytes = simulate(nest, chip).value();
  EXPECT_FALSE(bytes.converted);
  EXPECT_EQ(bytes.program.choice.intrinsic.name(), "cube.s8");
  nest.accesses[1].dtype = v1::DATA_TYPE_U8;
  EXPECT_THAT(std::string(simulate(nest, chip).status().message()), HasSubstr("cube.s8: A is u8, not s8"));
  EXPECT_THAT(std::string(simulate(nest, chip, {.instruction = "cube"}).status().message()),
              HasSubstr("has no instruction cube; accepted: cube.f16, cube.s8"));
}

TEST(Simulate, WhatNoInstructionComputesSaysWhy) {
  const v1::Target& chip = *findBuiltinTarget("axpy-engine");
  loopnest::Nest sum = nestOf("O[i] += A[i, k]", {4, 4});
  EXPECT_THAT(std::string(simulate(sum, chip, {.instruction = {}, .typed = false}).status().message()),
              HasSubstr("axpy: computes y:f16"));
  const v1::Target& rows = *findBuiltinTarget("gemv-engine");
  const auto answer = simulate(nestOf("O[i] += A[i] * B[i]", {4}), rows, {.instruction = {}, .typed = false});
  EXPECT_EQ(answer.status().message(), "gemv: no loops of the operator are its iterations");
}

TEST(Simulate, AProgramTooLongToTimeIsRefused) {
  const v1::Target& chip = *findBuiltinTarget("gemv-engine");
  const loopnest::Nest nest = nestOf("O[b, i] += A[b, i, k] * B[b, k]", {1 << 20, 512, 512});
  const auto answer = simulate(nest, chip, {.instruction = {}, .typed = false});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kResourceExhausted) << answer.status();
}

TEST(Simulate, TheModelAndTheSimulatorAreRankedByEachOther) {
  const v1::Target& chip = *findBuiltinTarget("ascend-910-like");
  const Ranking ranking =
      rank(nestOf("O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {2, 40, 14, 14, 33, 3, 3}), chip,
           {.instruction = "cube.f16", .typed = false})
          .value();
  EXPECT_EQ(ranking.predicted.size() + ranking.refused, 35u);
  EXPECT_GT(ranking.pairs, 0.5);  // better than chance
  EXPECT_LE(ranking.pairs, 1.0);
  EXPECT_GT(ranking.recall, 0.4);
}

TEST(Simulate, BlocksThatAreMostlyPaddingArePricedByWhatIsMoved) {
  // Grouped and depthwise layers of table 5.3 on 16 columns: one in four or one in eight columns of a block belongs to
  // the operator.
  const v1::Target& chip = *findBuiltinTarget("ascend-910-like");
  for (const intrinsic::StandardOperator& standard : intrinsic::standardOperators()) {
    const std::string name = standard.name;
    if (name != "GRP" && name != "DEP") continue;
    const Ranking ranking =
        rank(intrinsic::nestOf(standard), chip, {.instruction = "cube.f16", .typed = false}).value();
    for (size_t i = 0; i < ranking.predicted.size(); ++i) {
      EXPECT_GT(ranking.simulated[i], 0.99 * ranking.predicted[i]) << name << " " << i;
      EXPECT_LT(ranking.simulated[i], 1.3 * ranking.predicted[i]) << name << " " << i;
    }
    EXPECT_GE(ranking.apart, name == "GRP" ? 0.99 : 0.65) << name;
    EXPECT_GE(ranking.recall, 0.6) << name;
  }
}

}  // namespace
}  // namespace tessera::compiler::simulator
