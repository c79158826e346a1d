#include "compiler/graph/plan/memory_plan.h"

#include <random>

#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

void expectValid(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  EXPECT_GE(plan.arena_bytes, plan.peak_live_bytes);
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % 64, 0);
    EXPECT_LE(plan.offsets[a] + lifetimes[a].size_bytes, plan.arena_bytes);
    for (size_t b = 0; b < a; ++b) {
      const bool together =
          lifetimes[a].first_step <= lifetimes[b].last_step && lifetimes[b].first_step <= lifetimes[a].last_step;
      const bool apart = plan.offsets[a] + lifetimes[a].size_bytes <= plan.offsets[b] ||
                         plan.offsets[b] + lifetimes[b].size_bytes <= plan.offsets[a];
      EXPECT_TRUE(!together || apart) << a << " and " << b << " overlap";
    }
  }
}

TEST(MemoryPlan, EmptyNeedsNothing) { EXPECT_EQ(planMemory({}).arena_bytes, 0); }

TEST(MemoryPlan, AChainAlternatesBetweenTwoPlaces) {
  std::vector<Lifetime> chain;
  for (int step = 0; step < 10; ++step) chain.push_back({1000, step, step + 1});
  MemoryPlan plan = planMemory(chain);
  expectValid(chain, plan);
  EXPECT_EQ(plan.arena_bytes, 2 * 1024);
  EXPECT_EQ(plan.peak_live_bytes, 2 * 1024);
}

TEST(MemoryPlan, RandomLifetimesNeverOverlapAndStayNearTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 50);
      lifetimes.push_back({static_cast<int64_t>(random() % 100'000), first, first + static_cast<int>(random() % 6)});
    }
    MemoryPlan plan = planMemory(lifetimes);
    expectValid(lifetimes, plan);
    EXPECT_LE(plan.arena_bytes, plan.peak_live_bytes * 3 / 2);
  }
}

}  // namespace
}  // namespace tessera::compiler
