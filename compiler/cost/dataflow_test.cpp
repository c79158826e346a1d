#include "compiler/cost/dataflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/cost/breakdown.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::cost {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Three levels and one kind of unit; four L1 and sixteen L0 and units.
Machine machine() {
  Machine chip;
  chip.memories = {{.name = "L0", .instances = 16, .read_bytes_per_cycle = 1e12, .write_bytes_per_cycle = 1e12},
                   {.name = "L1", .instances = 4, .read_bytes_per_cycle = 1e12, .write_bytes_per_cycle = 1e12},
                   {.name = "DRAM", .read_bytes_per_cycle = 1e12, .write_bytes_per_cycle = 1e12}};
  chip.units = {{.name = "core", .count = 16, .operations_per_cycle = 2}};
  return chip;
}

loopnest::Nest nest(const std::string& text, const std::vector<int64_t>& extents) {
  return loopnest::parse("problem", text, extents).value();
}

absl::StatusOr<DataflowCost> price(const loopnest::Nest& problem, const std::string& tree,
                                   const Machine& chip = machine()) {
  const auto schedule = parseSchedule(tree);
  if (!schedule.ok()) return schedule.status();
  return analyzeDataflow(problem, *schedule, chip);
}

const Traffic& traffic(const DataflowCost& cost, const std::string& level, const std::string& tensor) {
  for (const LevelCost& each : cost.levels)
    for (const Traffic& one : each.tensors)
      if (each.name == level && one.tensor == tensor) return one;
  throw std::out_of_range(level + " " + tensor);
}

std::string fault(const loopnest::Nest& problem, const std::string& tree) {
  return std::string(price(problem, tree).status().message());
}

const char* const kGemm = "C[m, n] += A[m, k] * B[k, n]";

TEST(Dataflow, Figure35OfTheThesisMoves168Elements) {
  // Rows of 4, windows of 4 + 3 - 1 = 6; two temporal loops of three steps around them.
  const auto cost = price(nest("C[i, k] += A[i, j + k] * B[j, k]", {12, 3, 12}),
                          "DRAM [i:Tp/4 j:Tp/4]\n  L1 [i:Sp(core)/1 j:Sp(core)/1] compute nest 0\n");
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(traffic(*cost, "L1", "A").fill, 168);  // 24 + 2 * 16 in each of three rows of tiles
  EXPECT_EQ(traffic(*cost, "L1", "A").footprint, 24);
  EXPECT_EQ(traffic(*cost, "L1", "B").fill, 3 * 3 * 12);
  EXPECT_EQ(traffic(*cost, "L1", "C").drain, 36);
  EXPECT_EQ(traffic(*cost, "L1", "C").fill, 0);
  EXPECT_EQ(cost->units, 16);
}

TEST(Dataflow, NoRunIsShorterThanItsBusiestPortWorks) {
  // L1 receives X and Y from the DRAM and H from L0, one after another through one port.
  Machine chip = machine();
  chip.memories[0].write_energy_pj_per_byte = 3;
  chip.memories[1].write_bytes_per_cycle = 0.5;
  chip.memories[1].energy_pj_per_byte = 2;
  chip.energy_pj_per_operation = 5;
  const auto problem = nest("G[m, n] = tanh(X[m, n]); H[m, n] = G[m, n] + Y[m, n]", {4, 3});
  const auto cost = price(
      problem, "DRAM [m:Tp/1]\n  L1 [] Seq\n    L0 [n:Tp/1] compute nest 0\n    L0 [n:Tp/1] compute nest 1\n", chip);
  ASSERT_TRUE(cost.ok()) << cost.status();
  const Breakdown parts = breakdownOf(*cost, chip);
  const double bytes = 3 * 12 * traffic(*cost, "L1", "H").word_bytes;
  EXPECT_EQ(parts.levels[1].write_cycles, bytes / 0.5);
  EXPECT_GE(cost->cycles, parts.levels[1].write_cycles);
  double energy = parts.operations_pj;
  for (const LevelBreakdown& level : parts.levels) energy += level.energy_pj;
  EXPECT_EQ(energy, cost->energy_pj);
  EXPECT_GT(parts.levels[0].energy_pj, 0);
  EXPECT_EQ(parts.operations_pj, 5 * cost->operations);
}

TEST(Dataflow, PartialSumsReturnToBeContinued) {
  const auto problem = nest(kGemm, {4, 6, 8});  // m, n, k
  const auto inner =
      price(problem, "DRAM [m:Tp/2 n:Tp/3 k:Tp/2]\n  L1 [m:Tp/1 n:Tp/1 k:Tp/1] compute nest 0\n").value();
  EXPECT_EQ(traffic(inner, "DRAM", "C").update, 24);  // k innermost: each result leaves once
  EXPECT_EQ(traffic(inner, "DRAM", "C").read, 0);
  EXPECT_EQ(traffic(inner, "L1", "A").fill, 4 * 8 * 2);
  EXPECT_EQ(traffic(inner, "L1", "B").fill, 6 * 8 * 2);
  const auto outer =
      price(problem, "DRAM [k:Tp/2 m:Tp/2 n:Tp/3]\n  L1 [m:Tp/1 n:Tp/1 k:Tp/1] compute nest 0\n").value();
  EXPECT_EQ(traffic(outer, "DRAM", "C").update, 24 * 4);  // k outermost: once for each of its four steps
  EXPECT_EQ(traffic(outer, "DRAM", "C").read, 24 * 3);
  EXPECT_EQ(traffic(outer, "L1", "C").fill, 24 * 3);
  EXPECT_EQ(traffic(outer, "L1", "A").fill, 4 * 8);
}

TEST(Dataflow, InstancesReceiveTheSameWordByOneRead) {
  const auto cost =
      price(nest(kGemm, {4, 6, 8}), "DRAM [m:Sp(core)/1 n:Tp/2]\n  L1 [k:Tp/1 n:Tp/1] compute nest 0\n").value();
  EXPECT_EQ(traffic(cost, "DRAM", "B").read, 48);
  EXPECT_EQ(traffic(cost, "L1", "B").fill, 48 * 4);
  EXPECT_EQ(traffic(cost, "L1", "A").fill, 32);
  EXPECT_EQ(cost.levels[1].units, 4);
  EXPECT_THAT(cost.violations, IsEmpty());
  const auto sums =
      price(nest(kGemm, {4, 6, 8}), "DRAM [k:Sp(core)/2]\n  L1 [m:Tp/1 n:Tp/1 k:Tp/1] compute nest 0\n").value();
  EXPECT_EQ(traffic(sums, "L1", "C").drain, 24 * 4);
  EXPECT_EQ(traffic(sums, "DRAM", "C").update, 24);  // added on the way
}

TEST(Dataflow, SeqEvictsAndSharKeeps) {
  const auto problem = nest("C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {4, 4, 4, 4});
  const auto tree = [](const std::string& join) {
    return "DRAM [m:Tp/1] " + join + "\n  L1 [l:Tp/1 k:Tp/1] compute nest 0\n  L1 [n:Tp/1 l:Tp/1] compute nest 1\n";
  };
  const auto seq = price(problem, tree("Seq")).value(), shar = price(problem, tree("Shar")).value();
  EXPECT_EQ(traffic(seq, "L1", "B").fill, 4 * 16);
  EXPECT_EQ(traffic(shar, "L1", "B").fill, 16);
  for (const auto& cost : {seq, shar}) {
    EXPECT_EQ(traffic(cost, "L1", "C").fill, 0);  // stays in L1
    EXPECT_EQ(traffic(cost, "DRAM", "C").update, 0);
    EXPECT_EQ(traffic(cost, "DRAM", "C").footprint, 0);
  }
  EXPECT_EQ(seq.levels[1].footprint, 4 + 16 + 4);            // A, B, C; then C, D, E
  EXPECT_EQ(shar.levels[1].footprint, 4 + 16 + 4 + 16 + 4);  // C once
  EXPECT_EQ(seq.cycles, 4 * 16 * 2);
  EXPECT_EQ(price(problem, tree("Pipe"))->cycles, (4 + 1) * 16);  // the first step passes through both children
  EXPECT_EQ(price(problem, tree("Pipe"))->units, 2);
}

TEST(Dataflow, OnlyPhasesPassIntermediatesThroughTheOutermostMemory) {
  const auto problem = nest("C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {4, 4, 4, 4});
  const std::string first = "L0 [l:Tp/1 k:Tp/1] compute nest 0\n", second = "L0 [n:Tp/1 l:Tp/1] compute nest 1\n";
  const auto one = price(problem, "L1 [m:Tp/1] Shar\n  " + first + "  " + second).value();
  EXPECT_EQ(traffic(one, "DRAM", "C").update + traffic(one, "DRAM", "C").read, 0);
  EXPECT_EQ(traffic(one, "L1", "C").footprint, 16);
  const auto two = price(problem, first + second).value();
  EXPECT_EQ(traffic(two, "DRAM", "C").update, 16);
  EXPECT_EQ(traffic(two, "DRAM", "C").read, 16);
}

TEST(Dataflow, ElementsBetweenStridesTakeNoRoom) {
  const auto cost =
      price(nest("O[k, p] += I[c, 3 * p] * W[k, c]", {2, 8, 4}), "DRAM [p:Tp/2] compute nest 0\n").value();
  EXPECT_EQ(traffic(cost, "DRAM", "I").footprint, 4 * 8);  // of 22 columns
  // Two windows, 0 to 5 and 4 to 9.
  const auto both = price(nest("O[p] = I[p] + I[p + 4]", {6}), "DRAM [p:Tp/1] compute nest 0\n").value();
  EXPECT_EQ(traffic(both, "DRAM", "I").footprint, 10);
}

TEST(Dataflow, DifferentLevelsMeetInTheCommonTile) {
  const auto problem = nest("C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {4, 4, 4, 4});
  const auto cost = price(problem,
                          "DRAM [m:Tp/2]\n  L1 [m:Tp/1] Shar\n    L0 [l:Tp/1 k:Tp/1] compute nest 0\n"
                          "    L1 [n:Tp/1 l:Tp/1] compute nest 1\n")
                        .value();
  EXPECT_EQ(traffic(cost, "L1", "C").update, 16);
  EXPECT_EQ(traffic(cost, "L0", "C").drain, 16);
  EXPECT_EQ(traffic(cost, "DRAM", "C").update, 0);
  EXPECT_EQ(traffic(cost, "L0", "D").fill, 0);
}

TEST(Dataflow, ABypassedTensorPassesTheLevel) {
  const std::string inside = "    L0 [k:Tp/1] compute nest 0\n";
  const auto cost =
      price(nest(kGemm, {4, 6, 8}), "DRAM [m:Tp/2]\n  L1 [n:Tp/1 m:Tp/1]\n    stage bypass B,C\n" + inside).value();
  EXPECT_EQ(traffic(cost, "L1", "B").read + traffic(cost, "L1", "B").fill + traffic(cost, "L1", "B").footprint, 0);
  EXPECT_EQ(traffic(cost, "DRAM", "B").read, traffic(cost, "L0", "B").fill);
  EXPECT_EQ(traffic(cost, "L0", "B").fill, 2 * 48);
  EXPECT_EQ(traffic(cost, "L1", "A").fill, 32);
}

TEST(Dataflow, AProducerFollowsTheWindowOfItsConsumer) {
  const auto problem = nest("M[k, p] += I[c, p + r] * W[k, c, r]; O[j, x] += M[k, x + u] * V[j, k, u]",
                            {2, 10, 3, 3, 2, 8, 3});  // k p c r j x u
  const auto cost = price(problem,
                          "DRAM [x:Tp/2] Shar\n  L1 [p:Tp/1 k:Tp/1 c:Tp/1 r:Tp/1] compute nest 0\n"
                          "  L1 [x:Tp/1 j:Tp/1 k:Tp/1 u:Tp/1] compute nest 1\n")
                        .value();
  EXPECT_EQ(traffic(cost, "L1", "M").footprint, 2 * 4);
  EXPECT_EQ(traffic(cost, "L1", "I").footprint, 3 * 6);
  EXPECT_EQ(traffic(cost, "L1", "I").fill, 3 * 12);                       // halos stay
  EXPECT_EQ(cost.operations, 2.0 * (4 * 4 * 2 * 3 * 3 + 8 * 2 * 2 * 3));  // two of four columns are computed again
}

TEST(Dataflow, TheLastStepMayBePartial) {
  // m in 5, 5, 3; n in 4, 3; k in 2, 2, 2, 1.
  const auto cost =
      price(nest(kGemm, {13, 7, 7}), "DRAM [m:Tp/5 n:Tp/4]\n  L1 [m:Sp(core)/2 k:Tp/2] compute nest 0\n").value();
  EXPECT_EQ(traffic(cost, "DRAM", "A").read, 13 * 7);
  EXPECT_EQ(traffic(cost, "L1", "A").fill, 13 * 7);
  EXPECT_EQ(traffic(cost, "L1", "A").read, 13 * 7 * 2);  // again for each step of n
  EXPECT_EQ(traffic(cost, "L1", "B").fill, 3 * 7 * 7);
  EXPECT_EQ(traffic(cost, "DRAM", "C").update, 13 * 7);
  EXPECT_EQ(traffic(cost, "L1", "A").footprint, 5 * 7);
  EXPECT_EQ(cost.units, 3);  // rows 2, 2, 1
  EXPECT_EQ(cost.operations, 2 * 13 * 7 * 7);
  // Two operations a cycle: the first unit's product of 2 rows, 4 or 3 columns, 2 or 1 steps of k.
  EXPECT_EQ(cost.compute_cycles, 3 * 2 * (4 + 3) * 7);
}

TEST(Dataflow, BandwidthOfEitherSideBoundsTheCycles) {
  Machine chip = machine();
  const auto problem = nest(kGemm, {4, 6, 8});
  const std::string tree = "DRAM [m:Tp/2 n:Tp/3]\n  L1 [m:Tp/1 n:Tp/1 k:Tp/1] compute nest 0\n";
  EXPECT_EQ(price(problem, tree, chip)->cycles, 192);
  chip.memories[2].read_bytes_per_cycle = 0.5;  // A twice and B twice, 4 bytes each
  // First A and B, 40 words; a step of n brings 24 words of B in more time than the 48 cycles of the step before, one
  // of m brings both again. The last step remains.
  EXPECT_EQ(price(problem, tree, chip)->cycles, 4 * (40 + 24 + 40 + 24) / 0.5 + 48);
  chip.memories[2].read_bytes_per_cycle = 1e12;
  chip.memories[2].write_bytes_per_cycle = 0.25;
  EXPECT_EQ(price(problem, tree, chip)->cycles, 48 + 4 * 24 / 0.25);  // the first step, then four tiles of C
  chip.memories[1].energy_pj_per_byte = 1;
  chip.energy_pj_per_operation = 10;
  const auto cost = price(problem, tree, chip).value();
  double words = 0;
  for (const Traffic& each : cost.levels[1].tensors) words += each.read + each.fill + each.update + each.drain;
  EXPECT_EQ(cost.energy_pj, 4 * words + 10 * 384);
  chip.memories[1].write_energy_pj_per_byte = 3;
  double received = 0;
  for (const Traffic& each : cost.levels[1].tensors) received += each.fill + each.update;
  EXPECT_EQ(price(problem, tree, chip)->energy_pj, cost.energy_pj + 2 * 4 * received);
  chip.memories[1].capacity_bytes = 64;
  EXPECT_THAT(price(problem, tree, chip)->violations, ElementsAre("L1: 184 bytes are needed, an instance has 64"));
}

TEST(Dataflow, FaultsNameTheTile) {
  const auto gemm = nest(kGemm, {4, 6, 8});
  EXPECT_THAT(fault(gemm, "DRAM [m:Tp/5] compute nest 0\n"),
              HasSubstr("tile 0: loop m has 4 iterations here and steps of 5; accepted are 1 to 4"));
  EXPECT_THAT(fault(gemm, "DRAM [m:Tp/2]\n  L3 [n:Tp/1] compute nest 0\n"),
              HasSubstr("tile 0.0: no memory 'L3'; accepted: L0, L1, DRAM"));
  EXPECT_THAT(fault(gemm, "L1 [m:Tp/2]\n  DRAM [n:Tp/1] compute nest 0\n"), HasSubstr("tile 0.0: DRAM encloses"));
  EXPECT_THAT(fault(gemm, "DRAM [z:Tp/2] compute nest 0\n"), HasSubstr("no loop 'z'; accepted: m, n, k"));
  EXPECT_THAT(fault(gemm, "DRAM [m:Sp(warp)/2] compute nest 0\n"), HasSubstr("no unit 'warp'; accepted: core"));
  EXPECT_THAT(fault(gemm, "DRAM [m:Tp/2] scalar nest 0\n"), HasSubstr("kernel 'scalar'; accepted: compute"));
  EXPECT_THAT(fault(gemm, "DRAM [m:Tp/2] compute nest 0 x4\n"), HasSubstr("the kernel sets 'lanes'"));
  EXPECT_THAT(fault(gemm, "DRAM [m:Tp/2] compute nest 1\n"), HasSubstr("no nest 1"));
  EXPECT_THAT(fault(gemm, "vectors 512\nDRAM [m:Tp/2] compute nest 0\n"), HasSubstr("the tree sets 'vector_bits'"));
  EXPECT_THAT(fault(gemm, "DRAM [m:Tp/2] compute nest 0\n  stage bypass Z\n"), HasSubstr("bypass names 'Z'"));
  const auto chain = nest("C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {4, 4, 4, 4});
  EXPECT_THAT(fault(chain, "DRAM [m:Tp/1] compute nest 0\n"), HasSubstr("nest 1 (E) is at no leaf"));
  EXPECT_THAT(fault(chain, "DRAM [k:Tp/1] Shar\n  L1 [] compute nest 0\n  L1 [] compute nest 1\n"),
              HasSubstr("tile 0: statement E does not run over loop k"));
  EXPECT_THAT(fault(chain, "DRAM [m:Tp/1] Para\n  L1 [] compute nest 0\n  L1 [] compute nest 1\n"),
              HasSubstr("tile 0: Para runs nests 0 and 1 at once"));
  EXPECT_THAT(fault(chain, "DRAM [m:Tp/1] Shar\n  L1 [] compute nest 1\n  L1 [] compute nest 0\n"),
              HasSubstr("nest 1 reads C before nest 0 writes it"));
  const auto long_loop = nest("O[m] = A[m]", {100'000});
  EXPECT_THAT(fault(long_loop,
                    "DRAM [m:Tp/31337 m:Tp/9973 m:Tp/3001 m:Tp/997 m:Tp/301 m:Tp/97 m:Tp/31 m:Tp/7] compute "
                    "nest 0\n"),
              HasSubstr("tile 0: loop m: too many loops with partial steps"));
  const auto softmax = nest("M[m] = max(S[m, l]); P[m, l] = S[m, l] - M[m]", {4, 4});
  const std::string cut = "DRAM [l:Tp/2] Shar";
  const std::string leaves = "\n  L1 [m:Tp/1] compute nest 0\n  L1 [m:Tp/1] compute nest 1\n";
  EXPECT_THAT(fault(softmax, cut + leaves), HasSubstr("tile 0: loop l sums M"));
  EXPECT_TRUE(price(softmax, cut + " softmax" + leaves).ok());
}

}  // namespace
}  // namespace tessera::compiler::cost
