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
    auto decision = decideSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, cpu(), {6, 1});
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_TRUE(decision->fuse) << decision->reason;
    EXPECT_LT(decision->fused_bytes, decision->unfused_bytes);
    EXPECT_THAT(decision->reason, testing::HasSubstr("one after another"));
    // What a mask removes is left out of the slices, and of nothing else.
    Between masked{6, 1};
    masked.kept = [](const Tiles&) { return 0.5; };
    auto half = decideSlices(chain, {chain.loopNamed("b"), chain.loopNamed("m")}, cpu(), masked);
    ASSERT_TRUE(half.ok()) << half.status();
    EXPECT_LT(half->fused_seconds, 0.75 * decision->fused_seconds);
    EXPECT_GE(half->fused_seconds, 0.5 * decision->fused_seconds);
    EXPECT_EQ(half->unfused_seconds, decision->unfused_seconds);
    EXPECT_THAT(half->reason, testing::HasSubstr("(50 % masked and skipped)"));
  }
}

}  // namespace
}  // namespace tessera::compiler::fusion
