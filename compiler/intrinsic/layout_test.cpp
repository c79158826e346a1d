#include "compiler/intrinsic/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/intrinsic/testing/instructions.h"

namespace tessera::compiler::intrinsic {
namespace {

using ::testing::ElementsAre;

struct Laid {
  std::vector<OperandLayout> layouts;
  std::vector<PaddingDecision> padding;
};

Laid laidOut(const std::string& target, const std::string& instruction, const Nest& software,
             const Matching& matching) {
  const v1::Target& chip = *findBuiltinTarget(target);
  const v1::Intrinsic intrinsic = testing::builtinInstruction(target, instruction);
  const PhysicalMapping mapping = physicalMapping(software, intrinsic, matching, chip).value();
  return {layoutsOf(software, intrinsic, matching, mapping), paddingOf(software, intrinsic, mapping, chip)};
}

Nest product(int64_t m, int64_t n, int64_t k) {
  return loopnest::parse("g", "O[m, n] += A[m, k] * B[k, n]", {m, n, k}).value();
}

TEST(Layout, TheCubeWantsBothSourcesInFractals) {
  const auto [layouts, padding] = laidOut("ascend-910-like", "cube.f16", product(100, 48, 64), {{0, 1, 2}, {1, 2}});
  EXPECT_EQ(layouts[0].fractal, "zN");
  EXPECT_EQ(layouts[1].fractal, "zZ");
  EXPECT_EQ(layouts[2].fractal, "nZ");
  EXPECT_THAT(layouts[1].names, ElementsAre("i / 16", "r / 16", "i % 16", "r % 16"));
  EXPECT_THAT(layouts[1].extents, ElementsAre(7, 4, 16, 16));
  EXPECT_THAT(layouts[2].names, ElementsAre("r / 16", "j / 16", "j % 16", "r % 16"));
  EXPECT_EQ(layouts[2].memory, "L1");
  EXPECT_EQ(layouts[2].alignment_bytes, 512);
  EXPECT_EQ(layouts[0].memory, "UB");
}

TEST(Layout, TheFirstImagesChannelsArePaddedByTheLoads) {
  // Three channels of 16: C0 of NC1HWC0.
  const Nest software =
      loopnest::parse("C2D", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {1, 64, 112, 112, 3, 7, 7})
          .value();
  const auto [layouts, padding] = laidOut("ascend-910-like", "cube.f16", software, {{0, 1, 0, 0, 2, -1, -1}, {1, 2}});
  EXPECT_EQ(padding[0].padded, padding[0].extent);
  EXPECT_EQ(padding[2].extent, 3);
  EXPECT_TRUE(padding[2].pad);
  EXPECT_EQ(padding[2].padded, 16);
  EXPECT_TRUE(padding[2].on_the_way);
}

TEST(Layout, ATailGoesWhereItTakesLessTime) {
  // One row of 16: the vector unit is faster only where the cube would be almost idle.
  const auto wide = laidOut("sm_80", "mma.m16n8k16.f16.f32", product(17, 8, 16), {{0, 1, 2}, {1, 2}});
  EXPECT_FALSE(wide.padding[0].pad);
  EXPECT_EQ(wide.padding[0].padded, 17);
  EXPECT_GT(wide.padding[0].padded_cycles, wide.padding[0].tail_cycles);
  const auto full = laidOut("sm_80", "mma.m16n8k16.f16.f32", product(31, 8, 16), {{0, 1, 2}, {1, 2}});
  EXPECT_TRUE(full.padding[0].pad);
  EXPECT_FALSE(full.padding[0].on_the_way);
}

TEST(Layout, VnniWeightsAreQuartersOfTheSum) {
  // The mapping's b by columns: [n / 16, k / 4, 16, 4].
  const auto [layouts, padding] =
      laidOut("cascadelake", "vpdpbusd.512.broadcast", loopnest::parse("v", "O[n] += A[k] * B[k, n]", {32, 64}).value(),
              {{0, 1}, {1, 2}});
  EXPECT_TRUE(layouts[2].blocked);
  EXPECT_THAT(layouts[2].names, ElementsAre("i / 16", "r / 4", "i % 16", "r % 4"));
  EXPECT_THAT(layouts[2].extents, ElementsAre(2, 16, 16, 4));
}

TEST(Layout, AmxRowsHoldFourOfTheSum) {
  const auto [layouts, padding] = laidOut("sapphirerapids", "tdpbssd", product(16, 16, 64), {{0, 1, 2}, {1, 2}});
  EXPECT_FALSE(layouts[2].blocked);
  EXPECT_THAT(layouts[2].names, ElementsAre("r / 64", "j / 16", "r % 64 / 4", "j % 16", "r % 4"));
}

}  // namespace
}  // namespace tessera::compiler::intrinsic
