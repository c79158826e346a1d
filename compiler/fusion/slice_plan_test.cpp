#include "compiler/fusion/slice_plan.h"

#include <gmock/gmock.h>

#include "compiler/fusion/decision.h"
#include "compiler/fusion/testing/chips.h"
#include "compiler/fusion/testing/thesis_chains.h"

namespace tessera::compiler::fusion {
namespace {

/// A core with `held` bytes for slices in its own level, which it reads at no cost.
v1::Target coreHolding(int64_t held, int cores = 1) {
  v1::Target target = coreOf(170);
  target.mutable_units(0)->set_count(cores);
  addLevel(target, "L2", held / 3 * 4, 1e9);
  addLevel(target, "DRAM", 0, 43, 2);
  return target;
}

constexpr int64_t kHeld = 768 << 10;
const Chip& core() {
  static const Chip chip(coreHolding(kHeld));
  return chip;
}

TEST(SlicePlan, RowsOfABatchOneMatrixAtATime) {
  // Attention with 8 heads: C of one head is 1 MiB, so rows are cut within heads.
  Chain chain = gemmChain(8, 512, 64, 64, 512);
  chain.loops[chain.loopNamed("m")].multiple = 6;
  const int b = chain.loopNamed("b"), m = chain.loopNamed("m");
  auto plan = planSlices(chain, {b, m}, core(), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->order, (Order{b, m}));
  EXPECT_EQ(plan->tiles[b], 1);
  EXPECT_EQ(plan->tiles[m] % 6, 0);
  EXPECT_LE(plan->held_bytes, kHeld);
  // Every operand and result moves once: A and E by rows, B and D once for all rows of a head.
  EXPECT_DOUBLE_EQ(plan->volume_bytes, 4.0 * 8 * (512 * 64 * 2 + 64 * 512 * 2));
}

TEST(SlicePlan, HeadsWhoseRowsAreWorkedOnComeOneByOne) {
  // Four heads fit at once, and six slices cost less than 24, until passes over rows that cover all heads count.
  const Chain chain = gemmChain(24, 128, 64, 64, 128);
  v1::Target target = coreHolding(kHeld);
  target.mutable_memory(0)->set_bandwidth_bytes_per_cycle(64);
  const Chip chip(target);
  const int b = chain.loopNamed("b"), m = chain.loopNamed("m");
  auto plan = planSlices(chain, {b, m}, chip, 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->tiles[b], 1);
  plan = planSlices(chain, {b, m}, chip, 0, {.row_bytes = 4.0 * 4 * 24 * 128 * 128});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tiles[b], 1);
  EXPECT_EQ(plan->tiles[m], 128);
}

TEST(SlicePlan, SlicesLeaveRoomForTheNextOnesOperands) {
  Chain chain = gemmChain(8, 512, 64, 64, 512);
  chain.loops[chain.loopNamed("m")].multiple = 8;
  const int b = chain.loopNamed("b"), m = chain.loopNamed("m");
  auto plan = planSlices(chain, {b, m}, core(), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->prefetches_next);
  // Scores of a slice, and twice the keys, the values and its rows of A and E.
  EXPECT_LE(4.0 * (plan->tiles[m] * 512 + 2 * (2 * 64 * 512 + 2 * 64 * plan->tiles[m])), kHeld);
  // The level holds the keys and values of one slice, not of two.
  plan = planSlices(chain, {b, m}, Chip(coreHolding(400 << 10)), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->prefetches_next);
  // Rows of images are not contiguous: one run per channel.
  const Chain images = convolutionChain({16, 66, 66, 16, 16, 1, 1, 3, 3});
  plan = planSlices(images, {images.loopNamed("h")}, core(), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->prefetches_next);
}

TEST(SlicePlan, WhatAllSlicesReadStreamsWhenItIsTooLarge) {
  // Weights of 9.4 MB each: every slice brings them again, so larger slices move less.
  Chain chain = gemmChain(1, 4096, 768, 768, 3072);
  const int m = chain.loopNamed("m");
  auto plan = planSlices(chain, {m}, core(), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->constants_stay);
  const double weights = 4.0 * 2 * 768 * 3072, rows = 4.0 * 2 * 4096 * 768;
  EXPECT_DOUBLE_EQ(plan->volume_bytes, static_cast<double>(plan->slices) * (weights + 4.0 * 2 * plan->tiles[m] * 768));
  EXPECT_NEAR(plan->volume_bytes, static_cast<double>(plan->slices) * weights + rows, 0.02 * plan->volume_bytes);
}

TEST(SlicePlan, LongRowsOfASoftmaxComeInBlocks) {
  v1::Target target = coreHolding(kHeld);
  target.mutable_memory(0)->set_bandwidth_bytes_per_cycle(170);
  const Chip chip(target);
  // Keys and values of 2 MiB each: with whole rows, few rows fit, and all keys and values are loaded for each of these
  // slices.
  Chain chain = gemmChain(1, 2048, 64, 64, 8192);
  const int m = chain.loopNamed("m"), l = chain.loopNamed("l");
  chain.loops[m].multiple = 6;
  auto rows = planSlices(chain, {m}, chip, 0), blocks = planSlices(chain, {m}, chip, 0, {.softmax_loop = l});
  ASSERT_TRUE(rows.ok() && blocks.ok()) << rows.status() << blocks.status();
  EXPECT_EQ(rows->blocks, 1);
  EXPECT_EQ(blocks->blocks, (8192 + blocks->tiles[l] - 1) / blocks->tiles[l]);
  EXPECT_GT(blocks->blocks, 8);
  EXPECT_EQ(blocks->order, (Order{m, l}));
  EXPECT_GT(blocks->tiles[m], 4 * rows->tiles[m]);
  EXPECT_LT(blocks->volume_bytes, rows->volume_bytes / 4);
  EXPECT_LT(blocks->seconds, rows->seconds);
  EXPECT_LE(blocks->held_bytes, kHeld);
  // Short rows stay whole: a block would restart its sums without need.
  chain = gemmChain(12, 512, 64, 64, 512);
  chain.loops[chain.loopNamed("m")].multiple = 6;
  auto near =
      planSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, chip, 0, {.softmax_loop = chain.loopNamed("l")});
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_EQ(near->blocks, 1);
}

TEST(SlicePlan, OverlapsOfWindowsAreKeptWhereCoresHaveSeveralSlices) {
  const Chain chain = convolutionChain({16, 66, 66, 16, 16, 1, 1, 3, 3});
  const int h = chain.loopNamed("h");
  auto one = planSlices(chain, {h}, Chip(coreHolding(96 << 10)), 0);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_GT(one->slices, 1);
  EXPECT_LT(one->tiles[h], 62);
  EXPECT_EQ(one->sequence_length, one->slices);
  EXPECT_NEAR(one->flops, flopsOf(chain), 1e-9 * flopsOf(chain));
  EXPECT_GT(one->other_seconds, one->seconds);
  // Two parts: the second begins with its own halo.
  auto two = planSlices(chain, {h}, Chip(coreHolding(96 << 10, 2)), 0);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((two->slices + two->sequence_length - 1) / two->sequence_length, 2);
  EXPECT_GT(two->flops, one->flops);
  EXPECT_LT(two->flops, flopsOf(chain, two->tiles));
}

TEST(SlicePlan, OverlapsOfWindowsAreComputedAgainWhereCoresWouldWait) {
  const Chain chain = convolutionChain({16, 66, 66, 16, 16, 1, 1, 3, 3});
  const int h = chain.loopNamed("h");
  auto plan = planSlices(chain, {h}, Chip(coreHolding(96 << 10, 16)), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->sequence_length, 1);
  EXPECT_EQ(plan->slices, 16);
  EXPECT_GT(plan->flops, flopsOf(chain));
  EXPECT_GT(plan->other_seconds, plan->seconds);
}

TEST(SlicePlan, HalosAreKeptAlongOneLoop) {
  const Chain chain = convolutionChain({16, 66, 66, 16, 16, 1, 1, 3, 3});
  const int h = chain.loopNamed("h"), w = chain.loopNamed("w");
  // No row of the image fits together with its operands.
  auto plan = planSlices(chain, {h, w}, Chip(coreHolding(40 << 10)), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->order, (Order{h, w}));
  EXPECT_EQ(plan->sequence_length, 1);
}

TEST(SlicePlan, CoresWithoutASliceCount) {
  // Everything fits at once: one core gets one slice, four cores get four.
  Chain chain = gemmChain(1, 96, 32, 32, 32);
  auto one = planSlices(chain, {0}, core(), 0);
  auto four = planSlices(chain, {0}, Chip(coreHolding(kHeld, 4)), 0);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(one->slices, 1);
  EXPECT_EQ(four->slices % 4, 0);
}

TEST(SlicePlan, ASmallLastSliceLeavesACoreIdle) {
  // Three groups without common data, and rows: 2 + 1 groups would leave one core idle for a third of the time.
  Chain chain = gemmChain(3, 64, 64, 64, 64);
  const int b = chain.loopNamed("b"), m = chain.loopNamed("m");
  const Chip two(coreHolding(kHeld, 2));
  auto groups = planSlices(chain, {b}, two, 0);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_NEAR(groups->imbalance, 4.0 / 3, 1e-9);
  auto rows = planSlices(chain, {b, m}, two, 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_NEAR(rows->imbalance, 1, 1e-9);
  EXPECT_LT(rows->seconds, groups->seconds);
}

TEST(SlicePlan, SmallestBlocksAreEven) {
  // 12 heads in blocks of at least 5: two of 6, not 5, 5 and 2. Five heads with all rows do not fit.
  Chain chain = gemmChain(12, 512, 64, 64, 64);
  const int b = chain.loopNamed("b"), m = chain.loopNamed("m");
  chain.loops[b].min_tile = 5;
  auto plan = planSlices(chain, {b, m}, core(), 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->tiles[b], 6);
  EXPECT_LT(plan->tiles[m], 512);
}

TEST(SlicePlan, NamesWhatDoesNotFit) {
  auto plan = planSlices(gemmChain(1, 64, 64, 64, 1 << 20), {0}, core(), 0);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(plan.status().message(), testing::HasSubstr("768 KiB"));
}

TEST(SlicePlan, AttentionPaysAndArithmeticDoesNot) {
  const Chip cpu(serverCore());
  Chain attention = gemmChain(12, 512, 64, 64, 512);
  auto softmax =
      decideSlices(attention, {attention.loopNamed("b"), attention.loopNamed("m")}, cpu, {6, 1, 12 * 512 * 512 * 50.0});
  ASSERT_TRUE(softmax.ok()) << softmax.status();
  EXPECT_TRUE(softmax->fuse) << softmax->reason;
  // C6 of table 3.6, with twice the channels and half the size.
  const Chain deeper = convolutionChain({128, 30, 30, 128, 128, 1, 1, 1, 3});
  auto pointwise = decideSlices(deeper, {deeper.loopNamed("h")}, cpu);
  ASSERT_TRUE(pointwise.ok()) << pointwise.status();
  EXPECT_FALSE(pointwise->fuse) << pointwise->reason;
}

}  // namespace
}  // namespace tessera::compiler::fusion
