#include "compiler/backends/spatial/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/backends/spatial/lower.h"
#include "compiler/backends/spatial/simulate.h"
#include "compiler/backends/spatial/testing/chips.h"

namespace tessera::compiler::simulator {
namespace {

using ::testing::HasSubstr;

/// The error, if any, on tensors of zeros.
std::string faultOf(const Program& program) {
  TensorBytes tensors;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tensor) tensors.emplace_back(static_cast<size_t>(buffer.bytes));
  }
  return std::string(execute(program, tensors).status().message());
}

Program product(const v1::Target& chip) {
  const loopnest::Nest nest = testing::nestOf("O[i, j] += A[i, k] * B[k, j]", {30, 20, 50});
  const Candidates candidates = candidatesOf(nest, chip, {.instruction = "mul.4x2x4", .typed = false}).value();
  return lower(candidates.choices.front(), chip).value();
}

TEST(Execute, AnAccessOutsideIsAnErrorWithItsPath) {
  const Program program = product(testing::chipOf(testing::madeUpChip()));
  EXPECT_EQ(faultOf(program), "");

  Program smaller = program;  // a buffer without its last block
  Buffer& home = smaller.buffers[smaller.operands[1]];
  home.bytes -= home.block_bytes;
  EXPECT_THAT(faultOf(smaller), HasSubstr("-> near.a: a block that is not in near.a at"));

  Program shorter = program;  // a tensor without its last bytes
  shorter.buffers[1].bytes -= 8;
  EXPECT_THAT(faultOf(shorter), HasSubstr("copy DRAM.A -> far.a: byte 1492 of tensor A, which has 1492"));

  Program narrower = program;  // a result without its last bytes
  narrower.buffers[0].bytes -= 8;
  EXPECT_THAT(faultOf(narrower), HasSubstr("copy way-out.c -> DRAM.O: byte 2392 of tensor O, which has 2392"));

  Program unfilled = program;
  std::erase_if(unfilled.steps, [](const Step& step) { return step.kind == Step::kFill; });
  EXPECT_THAT(faultOf(unfilled), HasSubstr("call mul.4x2x4: reads what nobody wrote"));

  Program unread = program;
  std::erase_if(unread.steps, [&](const Step& step) { return step.kind == Step::kCopy && step.from == 1; });
  EXPECT_THAT(faultOf(unread), HasSubstr("copy far.a -> near.a: reads what nobody wrote"));
}

TEST(Execute, AWrongProgramIsSeenByItsResults) {
  const Program program = product(testing::chipOf(testing::madeUpChip()));
  ASSERT_TRUE(check(program, 1, 1 << 20)->right());
  Program unsummed = program;  // a sum without its last part
  const auto sum = std::find_if(unsummed.loops.begin(), unsummed.loops.end(),
                                [&](const ProgramLoop& loop) { return program.dimensions[loop.dimension].sum; });
  ASSERT_NE(sum, unsummed.loops.end());
  --sum->trips;
  EXPECT_GT(check(unsummed, 1, 1 << 20)->wrong, 0);
  Program turned = program;  // a block of b by rows, although the instruction reads columns
  for (Buffer& buffer : turned.buffers) {
    if (buffer.name == "b" && turned.memories[buffer.memory].name == "near") {
      std::reverse(buffer.offsets.begin(), buffer.offsets.end());
    }
  }
  EXPECT_GT(check(turned, 1, 1 << 20)->wrong, 0);
  Program missing = program;  // results that are never computed
  const auto kept = std::find_if(missing.loops.begin(), missing.loops.end(),
                                 [&](const ProgramLoop& loop) { return !program.dimensions[loop.dimension].sum; });
  ASSERT_NE(kept, missing.loops.end());
  --kept->trips;
  const Checked incomplete = check(missing, 1, 1 << 20).value();
  EXPECT_GT(incomplete.wrong, 0);
  EXPECT_THAT(incomplete.first_wrong, HasSubstr("is not computed"));
}

TEST(Check, OfALargeOperatorTilesAreComputedWhole) {
  const v1::Target& chip = *findBuiltinTarget("ascend-910-like");
  const loopnest::Nest nest = testing::nestOf("O[i, j] += A[i, k] * B[k, j]", {3000, 2000, 70});
  const Simulation all = simulate(nest, chip, {.instruction = "cube.f16", .typed = false, .most_points = 0}).value();
  const Checked some = check(all.program, 3, 1 << 22).value();
  EXPECT_TRUE(some.right()) << some.first_wrong;
  EXPECT_FALSE(some.whole());
  EXPECT_GT(some.results, 1000);
  EXPECT_EQ(some.of, 3000 * 2000);
  EXPECT_GT(some.largest_error, 0);  // numbers that need rounding
  EXPECT_LT(some.largest_error_ratio, 1);
}

}  // namespace
}  // namespace tessera::compiler::simulator
