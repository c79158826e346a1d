#include "compiler/fusion/nested_planner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/testing/thesis_chains.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::fusion {
namespace {

/// C[m, n] = A[m, k] B[k, n].
Chain product(int64_t m, int64_t n, int64_t k) {
  Chain chain = unfused(gemmChain(1, m, 1, k, n)).front();
  chain.name = "product";
  return chain;
}

/// Counts the bytes that the loop nest loads into a memory that holds one block of each operand, by running it: loops
/// of one level around those of the next; a block is loaded when it differs from the last one.
double counted(const Chain& chain, const std::vector<LevelBlocks>& levels) {
  double bytes = 0;
  std::vector<std::vector<int64_t>> held(chain.accesses.size());
  std::vector<int64_t> from(chain.loops.size(), 0), to;
  for (const Loop& loop : chain.loops) to.push_back(loop.extent);
  const auto fetch = [&] {
    for (size_t tensor = 0; tensor < chain.accesses.size(); ++tensor) {
      std::vector<int64_t> place;
      double elements = 1;
      for (const Subscript& subscript : chain.accesses[tensor].subscripts) {
        const int loop = subscript.terms[0].loop;
        place.push_back(from[loop]);
        elements *= static_cast<double>(to[loop] - from[loop]);
      }
      if (place == held[tensor]) continue;
      held[tensor] = place;
      bytes += elements * static_cast<double>(elementBytes(chain.accesses[tensor].dtype));
    }
  };
  const auto walk = [&](auto&& self, size_t level, size_t position) -> void {
    if (level == levels.size()) return fetch();
    if (position == levels[level].order.size()) return self(self, level + 1, 0);
    const int loop = levels[level].order[position];
    const int64_t first = from[loop], last = to[loop], step = levels[level].tiles[loop];
    for (int64_t at = first; at < last; at += step) {
      from[loop] = at;
      to[loop] = std::min(at + step, last);
      self(self, level, position + 1);
    }
    from[loop] = first;
    to[loop] = last;
  };
  walk(walk, 0, 0);
  return bytes;
}

TEST(NestedMovement, IsWhatTheLoopsBring) {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int64_t> values) { return values.begin()[random() % values.size()]; };
  for (int trial = 0; trial < 200; ++trial) {
    const Chain chain = product(64, 96, 128);
    std::vector<LevelBlocks> levels;
    Tiles tiles;
    for (const Loop& loop : chain.loops) tiles.push_back(loop.extent / pick({1, 2, 4}));
    for (int level = 0; level < 3; ++level) {
      LevelBlocks blocks{{0, 1, 2}, tiles, {}};
      std::shuffle(blocks.order.begin(), blocks.order.end(), random);
      std::erase_if(blocks.order, [&](int loop) {
        return tiles[loop] == (levels.empty() ? chain.loops[loop].extent : levels.back().tiles[loop]);
      });
      levels.push_back(blocks);
      for (int64_t& tile : tiles) tile = std::max<int64_t>(1, tile / pick({1, 2, 4}));
    }
    const double moved = movementInto(chain, stepsOf(levels), 0).volume_bytes;
    std::string text;
    for (const LevelBlocks& level : levels) {
      for (const int loop : level.order) text += chain.loops[loop].name + "/" + std::to_string(level.tiles[loop]) + " ";
      text += "| ";
    }
    EXPECT_DOUBLE_EQ(moved, counted(chain, levels)) << trial << ": " << text;
  }
}

TEST(NestedMovement, OfACacheIsOfTheLargestBlocksThatFit) {
  const Chain chain = product(64, 96, 128);
  const int m = chain.loopNamed("m"), n = chain.loopNamed("l"), k = chain.loopNamed("k");
  const std::vector<LoopStep> steps = {{m, 16}, {n, 32}, {k, 32}, {m, 8}};
  const auto into = [&](double capacity) { return movementInto(chain, steps, capacity); };
  const double a = 64 * 128 * 4, b = 128 * 96 * 4, c = 64 * 96 * 4;
  EXPECT_DOUBLE_EQ(into(1 << 20).volume_bytes, a + b + c) << "all of it fits";
  // A row of blocks, with all of B.
  const double row = 16 * 128 * 4 + b + 16 * 96 * 4;
  EXPECT_DOUBLE_EQ(into(row).memory_bytes, row);
  EXPECT_DOUBLE_EQ(into(row).volume_bytes, a + b + c);
  // A memory for one block of columns: A stays while the columns pass, B is loaded again for each row.
  EXPECT_DOUBLE_EQ(into(row - 1).volume_bytes, a + 4 * b + c);
  // A memory for 32 steps of the sum: A is loaded for each block of columns.
  EXPECT_DOUBLE_EQ(into(16 * 128 * 4).volume_bytes, 3 * a + 4 * b + c);
  // Not even the innermost blocks fit.
  EXPECT_DOUBLE_EQ(into(0).memory_bytes, (8 * 32 + 32 * 32 + 8 * 32) * 4);
}

TEST(NestedMovement, CountsWhatTheLastBlocksHave) {
  const Chain chain = product(100, 70, 50);
  const std::vector<LevelBlocks> levels = {{{0, 1, 2}, {36, 48, 30}, {}}, {{2, 0}, {7, 48, 12}, {}}};
  EXPECT_DOUBLE_EQ(movementInto(chain, stepsOf(levels), 0).volume_bytes, counted(chain, levels));
}

TEST(PlanNested, IsTheBlocksOfOneMemoryWhereThereIsOne) {
  const Chain chain = gemmChain(1, 512, 256, 128, 384);
  const double capacity = 64 << 10;
  const auto one = planBlocks(chain, capacity);
  const auto nested = planNested(chain, {{capacity, 1e9}});
  ASSERT_TRUE(one.ok() && nested.ok()) << nested.status();
  EXPECT_EQ(nested->far.tiles, one->tiles);
  EXPECT_DOUBLE_EQ(nested->slowest, one->movement.volume_bytes / 1e9);
  EXPECT_DOUBLE_EQ(nested->bound, nested->slowest);
}

/// The least time of the slowest memory, over even splits for the far one and the best blocks within them for the near
/// one.
double leastSlowest(const Chain& chain, absl::Span<const BlockMemory> memories) {
  double least = INFINITY;
  Order order = orderedLoops(chain);
  do {
    Tiles tiles(chain.loops.size());
    const auto visit = [&](auto&& self, size_t loop) -> void {
      if (loop < tiles.size()) {
        for (int64_t blocks = 1; blocks <= 16; ++blocks) {
          tiles[loop] = ceilDiv(chain.loops[loop].extent, blocks);
          self(self, loop + 1);
        }
        return;
      }
      const Movement far = analyse(chain, order, tiles);
      if (far.memory_bytes > memories[0].capacity_bytes || far.volume_bytes / memories[0].bytes_per_second >= least)
        return;
      if (const auto plan = planWithin(chain, memories, order, tiles); plan.ok())
        least = std::min(least, plan->slowest);
    };
    visit(visit, 0);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(PlanNested, IsWithinFivePercentOfTheBestOfAllBlocks) {
  for (const double far_rate : {0.2e9, 1e9, 10e9}) {  // the far memory is the slowest, both are, the near one is
    const std::vector<BlockMemory> memories = {{96 << 10, far_rate}, {8 << 10, 4e9}};
    const Chain chain = product(240, 192, 160);
    const auto plan = planNested(chain, memories);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(plan->bound, plan->slowest * (1 + 1e-9));
    EXPECT_LE(plan->slowest, 1.05 * leastSlowest(chain, memories)) << far_rate << ", bound " << plan->bound;
    EXPECT_LE(plan->far.movement.memory_bytes, memories[0].capacity_bytes);
    EXPECT_LE(plan->members[0].levels[0].movement.memory_bytes, memories[1].capacity_bytes);
    for (size_t loop = 0; loop < chain.loops.size(); ++loop)
      EXPECT_LE(plan->members[0].levels[0].tiles[loop], plan->far.tiles[loop]);
  }
}

TEST(PlanNested, MembersGoRoundByThemselvesInNearBlocks) {
  const Chain chain = gemmChain(1, 512, 384, 256, 320, 8);
  const auto plan = planNested(chain, {{256 << 10, 1e9}, {16 << 10, 4e9}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->members.size(), 2U);
  double near = 0;
  for (const NestedMember& member : plan->members) {
    ASSERT_EQ(member.levels.size(), 1U);
    near += member.levels[0].movement.volume_bytes;
    for (size_t loop = 0; loop < member.chain.loops.size(); ++loop)
      EXPECT_LE(member.levels[0].tiles[loop], plan->far.tiles[chain.loopNamed(member.chain.loops[loop].name)]);
  }
  EXPECT_DOUBLE_EQ(plan->seconds[1], near / 4e9);
  EXPECT_GT(near, plan->far.movement.volume_bytes) << "what lies between moves as well, and blocks are smaller";
}

TEST(PlanNested, SaysWhatItCannotDo) {
  EXPECT_EQ(planNested(product(8, 8, 8), {}).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status small = planNested(product(64, 64, 64), {{4096, 1}, {8, 1}}).status();
  EXPECT_EQ(small.code(), absl::StatusCode::kResourceExhausted) << small;
  const Chain windows = convolutionChain({.input_channels = 8,
                                          .height = 20,
                                          .width = 20,
                                          .middle_channels = 8,
                                          .output_channels = 8,
                                          .window1 = 3,
                                          .window2 = 3});
  const absl::Status halos = planNested(windows, {{1 << 20, 1}, {1 << 16, 1}}).status();
  EXPECT_EQ(halos.code(), absl::StatusCode::kInvalidArgument) << halos;
  EXPECT_THAT(std::string(halos.message()), ::testing::HasSubstr("halos"));
}

}  // namespace
}  // namespace tessera::compiler::fusion
