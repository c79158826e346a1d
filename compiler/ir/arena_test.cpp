#include "compiler/ir/arena.h"

#include <random>

#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

constexpr Packing kBoth[] = {Packing::kOnce, Packing::kSmallest};

void expectValid(const std::vector<Lifetime>& lifetimes, const Arena& arena) {
  ASSERT_EQ(arena.offsets.size(), lifetimes.size());
  EXPECT_GE(arena.bytes, arena.peak_live_bytes);
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(arena.offsets[a] % 64, 0);
    EXPECT_LE(arena.offsets[a] + lifetimes[a].bytes, arena.bytes);
    for (size_t b = 0; b < a; ++b) {
      const bool together = lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
      const bool apart = arena.offsets[a] + lifetimes[a].bytes <= arena.offsets[b] ||
                         arena.offsets[b] + lifetimes[b].bytes <= arena.offsets[a];
      EXPECT_TRUE(!together || apart) << a << " and " << b << " overlap";
    }
  }
}

TEST(Arena, EmptyNeedsNothing) {
  for (const Packing packing : kBoth) EXPECT_EQ(packArena({}, packing).bytes, 0);
}

TEST(Arena, AChainAlternatesBetweenTwoPlaces) {
  std::vector<Lifetime> chain;
  for (int step = 0; step < 10; ++step) chain.push_back({1000, step, step + 1});
  for (const Packing packing : kBoth) {
    const Arena arena = packArena(chain, packing);
    expectValid(chain, arena);
    EXPECT_EQ(arena.bytes, 2 * 1024);
    EXPECT_EQ(arena.peak_live_bytes, 2 * 1024);
  }
}

// Step 1 has two gaps from step 0: 320 bytes at the bottom, and 128, the tighter one, above.
TEST(Arena, OnceTakesTheLowestGap) {
  const std::vector<Lifetime> lifetimes = {{320, 0, 0}, {192, 0, 1}, {128, 0, 0}, {64, 0, 1}, {64, 1, 1}};
  const Arena arena = packArena(lifetimes, Packing::kOnce);
  expectValid(lifetimes, arena);
  EXPECT_EQ(arena.offsets, (std::vector<int64_t>{0, 320, 512, 640, 0}));
  EXPECT_EQ(arena.bytes, 704);
}

// More pairs than are examined individually: most buffers stay live, some leave gaps.
TEST(Arena, ThousandsThatAreAliveTogetherFitTheirGaps) {
  std::mt19937 random(11);
  std::vector<Lifetime> lifetimes;
  constexpr int kBuffers = 3200;
  for (int i = 0; i < kBuffers; ++i)
    lifetimes.push_back({static_cast<int64_t>(random() % 5000), i, i % 16 == 0 ? i + 3 : kBuffers});
  for (const Packing packing : kBoth) {
    const Arena arena = packArena(lifetimes, packing);
    expectValid(lifetimes, arena);
    EXPECT_LE(arena.bytes, arena.peak_live_bytes + arena.peak_live_bytes / 20);
  }
}

TEST(Arena, RandomLifetimesNeverOverlapAndStayNearTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 50);
      lifetimes.push_back({static_cast<int64_t>(random() % 100'000), first, first + static_cast<int>(random() % 6)});
    }
    for (const Packing packing : kBoth) {
      const Arena arena = packArena(lifetimes, packing);
      expectValid(lifetimes, arena);
      EXPECT_LE(arena.bytes, arena.peak_live_bytes * 3 / 2);
    }
  }
}

}  // namespace
}  // namespace tessera::compiler
