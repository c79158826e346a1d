#include "compiler/backends/spatial/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/backends/spatial/simulate.h"
#include "compiler/backends/spatial/testing/chips.h"

namespace tessera::compiler::simulator {
namespace {

using ::testing::HasSubstr;

constexpr char kProduct[] = "O[i, j] += A[i, k] * B[k, j]";

Program firstProgram(const v1::Target& chip, const loopnest::Nest& nest, const std::string& instruction,
                     const LoweringOptions& manner = {}) {
  const Candidates candidates = candidatesOf(nest, chip, {.instruction = instruction, .typed = false}).value();
  return lower(candidates.choices.front(), chip, manner).value();
}

TEST(Lower, APrintedProgramSaysWhatIsWhereAndWhatMoves) {
  const Program program =
      firstProgram(*findBuiltinTarget("ascend-910-like"), testing::nestOf(kProduct, {100, 60, 40}), "cube.f16");
  const std::string text = print(program);
  for (const char* line : {"program operator on ascend-910-like\n", "memory L0A, 65536 bytes\n  a f16 at 0",
                           "tensor [100, 40]", "cache L2\n", "fill L0C.c\n", "copy HBM.A -> L1.a\n",
                           "copy L1.a -> L0A.a\n", "call cube.f16", "of 512, fractal zZ\n", "of 512, fractal nZ\n",
                           "copy L0C.c -> UB.c\n", "copy UB.c -> HBM.O\n", "shared by 32 of cube"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Lower, EveryMannerFitsEveryMemory) {
  const v1::Target chip = testing::chipOf(testing::madeUpChip());
  const loopnest::Nest nest = testing::nestOf(kProduct, {61, 37, 83});
  for (const bool reductions_innermost : {false, true}) {
    for (const bool overlap : {false, true}) {
      const Program program = firstProgram(chip, nest, "mul.4x2x4", {reductions_innermost, overlap});
      EXPECT_TRUE(checkBuffers(program).ok()) << checkBuffers(program);
      for (const Buffer& buffer : program.buffers) {
        const Memory& memory = program.memories[buffer.memory];
        if (memory.capacity >= 0) {
          EXPECT_LE(buffer.base + buffer.bytes * buffer.copies, memory.capacity);
        }
      }
      for (const int operand : {1, 2}) {
        if (overlap) {
          EXPECT_EQ(program.buffers[program.operands[operand]].copies, 2);
        }
      }
    }
  }
}

TEST(Lower, AMemoryThatHoldsNoBlockIsNamed) {
  v1::Target chip = testing::chipOf(testing::madeUpChip());
  const loopnest::Nest nest = testing::nestOf(kProduct, {8, 8, 8});
  intrinsic::Choice choice =
      candidatesOf(nest, chip, {.instruction = "mul.4x2x4", .typed = false}).value().choices.front();
  chip.mutable_memory(2)->set_capacity_bytes(24);
  EXPECT_THAT(std::string(lower(choice, chip).status().message()),
              HasSubstr("way-out of made-up has 24 bytes for the operands of mul.4x2x4; 32 are needed"));
  // Pricing accepts this mapping but lowering refuses it: way-out is a bypassed memory that the model ignores.
  const auto refused = simulate(nest, chip, {.instruction = "mul.4x2x4", .typed = false});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  chip.mutable_memory(0)->set_capacity_bytes(20);
  EXPECT_THAT(std::string(candidatesOf(nest, chip, {.instruction = "mul.4x2x4", .typed = false}).status().message()),
              HasSubstr("near"));
}

TEST(Lower, TensorsThatTheLastMemoryCannotHoldAreRefused) {
  v1::Target chip = testing::chipOf(testing::madeUpChip());
  chip.mutable_memory(4)->set_capacity_bytes(4096);
  const auto answer = simulate(testing::nestOf(kProduct, {64, 64, 64}), chip, {.instruction = {}, .typed = false});
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("DRAM of made-up has 4096 bytes, the tensors of"));
}

TEST(Lower, ResultsOfSeveralPointsAreRefused) {
  const v1::Target chip = testing::chipOf(testing::madeUpChip());
  intrinsic::Choice choice = candidatesOf(testing::nestOf("O[n, i, j] += A[n, i, k] * B[k, j]", {2, 4, 4, 4}), chip,
                                          {.instruction = "mul.4x2x4", .typed = false})
                                 .value()
                                 .choices.front();
  choice.software.accesses[0].subscripts[1].terms.push_back({0, 1});
  EXPECT_THAT(std::string(lower(choice, chip).status().message()), HasSubstr("adds loops"));
}

TEST(Lower, BuffersOnEachOtherOrOutsideOrNotAlignedAreFaults) {
  const v1::Target chip = testing::chipOf(testing::madeUpChip());
  const Program program = firstProgram(chip, testing::nestOf(kProduct, {9, 9, 9}), "mul.4x2x4");
  const int home = program.operands[1];
  const auto faultOf = [&](int64_t base) {
    Program changed = program;
    changed.buffers[home].base = base;
    return std::string(checkBuffers(changed).message());
  };
  EXPECT_EQ(faultOf(program.buffers[home].base), "");
  EXPECT_THAT(faultOf(program.buffers[home].base + 1), HasSubstr("is not aligned to 8"));
  EXPECT_THAT(faultOf(512), HasSubstr("near has 512 bytes"));
  EXPECT_THAT(faultOf(program.buffers[program.operands[2]].base), HasSubstr("is within near."));
}

}  // namespace
}  // namespace tessera::compiler::simulator
