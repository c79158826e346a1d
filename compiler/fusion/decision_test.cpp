#include "compiler/fusion/decision.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "compiler/cost/padding_overhead.h"
#include "compiler/fusion/ceil_div.h"
#include "compiler/fusion/testing/chips.h"
#include "compiler/fusion/testing/thesis_chains.h"

namespace tessera::compiler::fusion {
namespace {

TEST(ChainDecision, ALevelOfItsOwnIsAskedFor) {
  v1::Target target = coreOf(64);
  addLevel(target, "L2", 1 << 20, 64, 8);
  addLevel(target, "DRAM", 0, 5, 8);
  const Chain chain = gemmChain(8, 512, 64, 64, 512, 8);
  auto decision = decideSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, Chip(target), {6, 1});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_FALSE(decision->fuse);
  EXPECT_EQ(decision->reason, "no memory level belongs to one core");
  target.mutable_memory(0)->set_shared_by(1);
  decision = decideSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, Chip(target), {6, 1});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_TRUE(decision->fuse) << decision->reason;
  EXPECT_EQ(decision->level, "L2");
}

// A chip's cost parameters decide: the same chain with free steps and lines that need not be read before they are
// written.
TEST(ChainDecision, PricesAreTheChips) {
  const Chain chain = gemmChain(8, 512, 64, 64, 512, 8);
  const std::vector<int> cut = {chain.loopNamed("b"), chain.loopNamed("m")};
  v1::Target target = serverCore();
  auto usual = decideSlices(chain, cut, Chip(target), {6, 1});
  target.mutable_cost_parameters()->mutable_overheads()->set_phase_cycles(0);
  target.mutable_cost_parameters()->mutable_memory()->set_transfers_per_written_line(1);
  auto cheap = decideSlices(chain, cut, Chip(target), {6, 1});
  ASSERT_TRUE(usual.ok() && cheap.ok());
  EXPECT_LT(cheap->unfused_seconds, usual->unfused_seconds - 2e-6);
  target.mutable_cost_parameters()->mutable_overheads()->set_nest_cycles(1e6);
  auto dear = decideSlices(chain, cut, Chip(target), {6, 1});
  ASSERT_TRUE(dear.ok());
  EXPECT_FALSE(dear->fuse) << dear->reason;
  EXPECT_EQ(dear->unfused_seconds, cheap->unfused_seconds);
}

TEST(ChainDecision, TheChipSaysWhatGainIsWorthIt) {
  const Chain chain = gemmChain(8, 512, 64, 64, 512, 8);
  const std::vector<int> cut = {chain.loopNamed("b"), chain.loopNamed("m")};
  v1::Target target = serverCore();
  const auto usual = decideSlices(chain, cut, Chip(target), {6, 1});
  target.mutable_cost_parameters()->mutable_gains()->set_slices_share(1);
  const auto never = decideSlices(chain, cut, Chip(target), {6, 1});
  ASSERT_TRUE(usual.ok() && never.ok());
  EXPECT_TRUE(usual->fuse) << usual->reason;
  EXPECT_FALSE(never->fuse) << never->reason;
  EXPECT_EQ(usual->fused_seconds, never->fused_seconds);
}

TEST(RoundedUp, IsWhatAllRunsCompute) {
  for (const int64_t extent : {1, 2, 7, 8, 9, 16, 61}) {
    for (int64_t tile = 1; tile <= extent; ++tile) {
      for (int64_t fewest = 1; fewest <= extent; ++fewest) {
        int64_t computed = 0, needed = 0;
        for (int64_t points = fewest; points <= extent; ++points) {
          computed += std::min(extent, ceilDiv(points, tile) * tile);
          needed += points;
        }
        EXPECT_NEAR(paddingOverhead(tile, fewest, extent), static_cast<double>(computed) / static_cast<double>(needed),
                    1e-12)
            << tile << " " << fewest << " " << extent;
      }
    }
  }
}

// Slices are computed whole: a run of one of eight batches should not compute four.
TEST(ChainDecision, SlicesAreSmallWhereRunsMayBe) {
  Chain chain = gemmChain(8, 128, 64, 64, 128, 8);
  const int b = chain.loopNamed("b");
  const auto tileOf = [&](int64_t fewest) {
    chain.loops[b].min_extent = fewest;
    const auto decision = decideSlices(chain, {b}, Chip(serverCore()));
    return decision.ok() && decision->slices ? decision->slices->tiles[b] : -1;
  };
  const int64_t usual = tileOf(0);
  EXPECT_GT(usual, 1);
  EXPECT_EQ(tileOf(8), usual);
  EXPECT_EQ(tileOf(1), 1);
}

// Table 3.5 with a softmax between: the square matrix is what costs.
TEST(ChainDecision, FusesAttention) {
  struct Shape {
    int64_t batch, m, n, k, l;
  };
  for (const Shape& s : {Shape{8, 512, 64, 64, 512}, Shape{12, 256, 64, 64, 256}, Shape{16, 208, 80, 80, 208}}) {
    Chain chain = gemmChain(s.batch, s.m, s.n, s.k, s.l, 8);
    for (const char* loop : {"l", "k", "n"}) chain.loops[chain.loopNamed(loop)].whole = true;
    auto decision = decideSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, Chip(serverCore()), {6, 1});
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_TRUE(decision->fuse) << decision->reason;
    EXPECT_LT(decision->fused_bytes, decision->unfused_bytes);
    EXPECT_THAT(decision->reason, testing::HasSubstr("one after another"));
    // A mask reduces the work of slices, and nothing else.
    BetweenMembers masked{6, 1};
    masked.unmasked_share = [](const Tiles&) { return 0.5; };
    auto half = decideSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, Chip(serverCore()), masked);
    ASSERT_TRUE(half.ok()) << half.status();
    EXPECT_LT(half->fused_seconds, 0.75 * decision->fused_seconds);
    EXPECT_GE(half->fused_seconds, 0.5 * decision->fused_seconds);
    EXPECT_EQ(half->unfused_seconds, decision->unfused_seconds);
    EXPECT_THAT(half->reason, testing::HasSubstr("(50 % masked and skipped)"));
  }
}

// An intermediate with other readers is written by the slices as well, which reduces the saving.
TEST(ChainDecision, WhatIsLeftForOthersIsPaidFor) {
  const Chain chain = gemmChain(8, 512, 64, 64, 512, 8);
  const std::vector<int> cut = {chain.loopNamed("b"), chain.loopNamed("m")};
  auto gone = decideSlices(chain, cut, Chip(serverCore()), {6, 1});
  BetweenMembers between{6, 1};
  between.also_written = {chain.statements[0].output};
  auto left = decideSlices(chain, cut, Chip(serverCore()), between);
  ASSERT_TRUE(gone.ok() && left.ok());
  EXPECT_EQ(left->unfused_seconds, gone->unfused_seconds);
  EXPECT_EQ(left->fused_bytes, gone->fused_bytes + 8.0 * 512 * 512 * 4);
  EXPECT_GT(left->fused_seconds, gone->fused_seconds);
  EXPECT_THAT(left->reason, testing::HasSubstr("written for others as well"));
}

// A dimension split by a view is no window: each member's arithmetic counts once.
TEST(ChainDecision, DigitsAreNoWindow) {
  Chain chain = gemmChain(1, 512, 256, 64, 256, 8);
  const double whole = decideSlices(chain, {chain.loopNamed("m")}, Chip(serverCore()), {})->unfused_seconds;
  // n as 8 blocks of 32, which are two dimensions of the last operand.
  const int outer = chain.loopNamed("n");
  chain.loops[outer].extent = 8;
  chain.loops.push_back({"inner", 32});
  const int inner = static_cast<int>(chain.loops.size()) - 1;
  chain.statements[1].loops.push_back(inner);
  chain.accesses[3].subscripts = {{{{outer, 1}}}, {{{chain.loopNamed("l"), 1}}}, {{{inner, 1}}}};
  chain.accesses[4].subscripts = {{{{chain.loopNamed("m"), 1}}}, {{{outer, 32}, {inner, 1}}}};
  EXPECT_TRUE(isMergedDimension(chain, chain.accesses[4].subscripts[1]));
  EXPECT_FALSE(isMergedDimension(chain, {{{outer, 1}, {inner, 1}}}));
  EXPECT_FALSE(isMergedDimension(chain, {{{outer, 16}, {inner, 1}}}));
  auto digits = decideSlices(chain, {chain.loopNamed("m")}, Chip(serverCore()), {});
  ASSERT_TRUE(digits.ok()) << digits.status();
  EXPECT_NEAR(digits->unfused_seconds, whole, 0.05 * whole);
}

TEST(ChainDecision, WhatMembersMoveAloneIsKeptForTheNextChain) {
  UnfusedTraffic known;
  const Chain chain = gemmChain(8, 512, 64, 64, 512, 8);
  const std::vector<int> cut = {chain.loopNamed("b"), chain.loopNamed("m")};
  const auto fresh = decideSlices(chain, cut, Chip(serverCore()), {6, 1});
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  for (int time = 0; time < 2; ++time) {
    const auto kept = decideSlices(chain, cut, Chip(serverCore()), {6, 1}, &known);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->reason, fresh->reason);
    EXPECT_EQ(kept->unfused_seconds, fresh->unfused_seconds);
  }
  Chain other = chain;
  other.name = "another name";
  EXPECT_EQ(structuralKey(other), structuralKey(chain));
  other.loops[0].multiple = 2;
  EXPECT_NE(structuralKey(other), structuralKey(chain));
}

}  // namespace
}  // namespace tessera::compiler::fusion
