#include "compiler/intrinsic/physical_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/explain.h"
#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::HasSubstr;

TEST(PhysicalMapping, TheExampleOfFigure52) {
  // One image of one channel, 4x4 with a window of 3, four results of 2x2; a unit of 2x2x2.
  const Nest software =
      loopnest::parse("C2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {1, 4, 2, 2, 1, 3, 3}).value();
  const Matching matching{{0, 1, 0, 0, 2, 2, 2}, {1, 2}};
  const v1::Intrinsic unit = testing::smallMatrixUnit();
  const PhysicalMapping mapping = physicalMapping(software, unit, matching, v1::Target()).value();
  EXPECT_EQ(mapping.groups[0].extent, 4);
  EXPECT_EQ(mapping.groups[2].extent, 9);
  EXPECT_EQ(mapping.groups[2].steps, 5);
  EXPECT_EQ(mapping.groups[2].padding(), 1);
  EXPECT_TRUE(mapping.ragged());
  EXPECT_EQ(mapping.calls, 2 * 2 * 5);
  EXPECT_DOUBLE_EQ(mapping.utilization, 0.9);
  // The image's blocks are 2 x 5 of four elements: 20 elements from one row of blocks to the next, as in part h).
  EXPECT_EQ(mapping.operands[1].base, "(n * 4 + p * 2 + q) / 2 * 20 + (c * 9 + r * 3 + s) / 2 * 4");
  EXPECT_EQ(mapping.operands[1].blocks, 10);
  const std::string text = explain(software, unit, matching, mapping);
  EXPECT_THAT(text, HasSubstr("[i, j, r] <- [(n * 4 + p * 2 + q) % 2, k % 2, (c * 9 + r * 3 + s) % 2]"));
  EXPECT_THAT(text, HasSubstr("r: 5 x 2, the last padded by 1"));
}

TEST(PhysicalMapping, LoopsOutsideHaveTheirStrides) {
  const Nest software = loopnest::parse("b", "O[g, i, j] += A[g, i, k] * B[g, k, j]", {3, 4, 2, 2}).value();
  const PhysicalMapping mapping =
      physicalMapping(software, testing::smallMatrixUnit(), {{-1, 0, 1, 2}, {1, 2}}, v1::Target()).value();
  EXPECT_EQ(mapping.operands[1].base, "g * 8 + i / 2 * 4");
  EXPECT_EQ(mapping.calls, 6);
}

TEST(PhysicalMapping, ABlockThatItsMemoryCannotHoldIsRefused) {
  v1::Target chip = *findBuiltinTarget("ascend-910-like");
  const Nest software = loopnest::parse("g", "O[i, j] += A[i, k] * B[k, j]", {64, 64, 64}).value();
  const v1::Intrinsic cube = testing::builtinInstruction("ascend-910-like", "cube.f16");
  const Matching matching{{0, 1, 2}, {1, 2}};
  EXPECT_EQ(physicalMapping(software, cube, matching, chip)->operands[1].blocks_that_fit, 128);
  chip.mutable_memory(0)->set_capacity_bytes(256);
  EXPECT_THAT(std::string(physicalMapping(software, cube, matching, chip).status().message()),
              HasSubstr("operand a of cube.f16 has 512 bytes, L0A of ascend-910-like fewer"));
}

TEST(PhysicalMapping, AnInstructionWithoutAccumulationHoldsItsSumWhole) {
  const v1::Intrinsic words = testing::builtinInstruction("haswell", "vpmaddwd.256");
  for (const auto& [sum, fits] : {std::pair{2, true}, {4, false}}) {
    const Nest software = loopnest::parse("d", "O[i] = A[i, k] * B[i, k]", {8, sum}).value();
    EXPECT_EQ(physicalMapping(software, words, {{0, 1}, {1, 2}}, v1::Target()).ok(), fits);
  }
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
