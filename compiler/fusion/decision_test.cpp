#include "compiler/fusion/decision.h"

#include <gmock/gmock.h>

namespace tessera::compiler::fusion {
namespace {

/// One core of the CPU the thesis measures on.
ChainMachine cpu() {
  return {
      170e9,
      {{"L1", 32768, 340e9, false}, {"L2", 1 << 20, 170e9, false}, {"L3", 40e6, 43e9, true}, {"DRAM", 0, 13e9, true}},
      1e-6};
}

TEST(ChainDecision, ReadsTheMachineOffItsDescription) {
  v1::Target target;
  target.set_name("chip");
  EXPECT_THAT(chainMachineOf(target).status().message(), testing::HasSubstr("chip: no unit"));
  auto* unit = target.add_units();
  unit->set_frequency_ghz(2);
  unit->set_ops_per_cycle(64);
  auto* near = target.add_memory();
  near->set_name("L2");
  near->set_capacity_bytes(1000);
  near->set_bandwidth_bytes_per_cycle(64);
  near->set_shared_by(1);
  auto* far = target.add_memory();
  far->set_name("DRAM");
  far->set_bandwidth_bytes_per_cycle(5);
  far->set_shared_by(8);
  auto machine = chainMachineOf(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->flops_per_second, 128e9);
  EXPECT_EQ(machine->levels[0].bytes_per_second, 128e9);
  EXPECT_TRUE(machine->levels[1].shared);
}

// Table 3.5 with a softmax between: the square matrix is what costs.
TEST(ChainDecision, FusesAttention) {
  struct Shape {
    int64_t batch, m, n, k, l;
  };
  for (const Shape& s : {Shape{8, 512, 64, 64, 512}, Shape{12, 256, 64, 64, 256}, Shape{16, 208, 80, 80, 208}}) {
    Chain chain = gemmChain(s.batch, s.m, s.n, s.k, s.l, 8);
    for (const char* loop : {"l", "k", "n"}) chain.loops[chain.loopNamed(loop)].whole = true;
    auto decision = decideChain(chain, cpu(), {6, 1});
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_TRUE(decision->fuse) << decision->reason;
    EXPECT_LT(decision->fused_bytes, decision->unfused_bytes);
    EXPECT_THAT(decision->reason, testing::HasSubstr("one after another"));
  }
}

// C6 of table 3.6: 1x1, then 3x3, bound by arithmetic; the halo would be computed again.
TEST(ChainDecision, DeclinesWherePointwiseFeedsAWindow) {
  const Chain c6 = convolutionChain({64, 58, 58, 64, 64, 1, 1, 1, 3});
  auto decision = decideChain(c6, cpu());
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_FALSE(decision->fuse) << decision->reason;
  EXPECT_THAT(decision->reason, testing::HasSubstr("less than the 5.0 % asked for"));
  EXPECT_GE(decision->fused_seconds, decision->unfused_seconds * (1 - kLeastBlockGain));
}

TEST(ChainDecision, HaloIsComputedAgainWhereItDoesNotFit) {
  const Chain chain = convolutionChain({16, 66, 66, 16, 16, 1, 1, 3, 3});
  ChainMachine machine = cpu();
  auto kept = decideChain(chain, machine);
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(kept->keeps_halo) << kept->reason;
  machine.levels[0].capacity_bytes = machine.levels[1].capacity_bytes = 20000;  // the overlaps alone take 16 KB
  auto again = decideChain(chain, machine);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->keeps_halo) << again->reason;
  EXPECT_THAT(again->reason, testing::HasSubstr("computed again"));
}

TEST(ChainDecision, FusesPointwiseConvolutionsOfManyPixels) {
  // C7 on a machine with little bandwidth to its shared memory: two passes over a 0.8 MB image less.
  ChainMachine machine = cpu();
  machine.levels[2].bytes_per_second = 4e9;
  auto decision = decideChain(convolutionChain({64, 56, 56, 64, 64, 1, 1, 1, 1}), machine);
  ASSERT_TRUE(decision.ok());
  EXPECT_TRUE(decision->fuse) << decision->reason;
}

TEST(ChainDecision, SaysWhenNothingFits) {
  ChainMachine machine = cpu();
  machine.levels[0].capacity_bytes = machine.levels[1].capacity_bytes = 64;
  Chain chain = gemmChain(1, 64, 64, 64, 64, 8);
  auto decision = decideChain(chain, machine);
  ASSERT_TRUE(decision.ok());
  EXPECT_FALSE(decision->fuse);
  EXPECT_THAT(decision->reason, testing::HasSubstr("the smallest blocks need"));
}

}  // namespace
}  // namespace tessera::compiler::fusion
