#include "compiler/dataflow_search/annealing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/dataflow_search/baselines.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::dataflow_search {
namespace {

cost::Machine threeLevelChip() {
  cost::Machine machine;
  machine.memories = {{.name = "L1",
                       .instances = 8,
                       .capacity_bytes = 2048,
                       .read_bytes_per_cycle = 16,
                       .write_bytes_per_cycle = 16,
                       .energy_pj_per_byte = 1},
                      {.name = "L2",
                       .instances = 2,
                       .capacity_bytes = 32768,
                       .read_bytes_per_cycle = 16,
                       .write_bytes_per_cycle = 16,
                       .energy_pj_per_byte = 4},
                      {.name = "DRAM",
                       .instances = 1,
                       .read_bytes_per_cycle = 8,
                       .write_bytes_per_cycle = 8,
                       .energy_pj_per_byte = 50}};
  machine.units = {{.name = "core", .count = 8, .operations_per_cycle = 16}};
  return machine;
}

loopnest::Nest productChain() {
  return loopnest::parse("chain", "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {64, 32, 16, 32})
      .value();
}

TEST(Annealing, ThreadsDoNotChangeTheAnswer) {
  const loopnest::Nest nest = productChain();
  const cost::Machine machine = threeLevelChip();
  AnnealingOptions options{.objective = Objective::kCycles, .restriction = {}, .seed = 7, .proposals = 2000};
  const auto one = searchByAnnealing(nest, machine, options);
  options.threads = 3;
  const auto three = searchByAnnealing(nest, machine, options);
  ASSERT_TRUE(one && three);
  EXPECT_EQ(printSchedule(one->tree), printSchedule(three->tree));
  EXPECT_THAT(one->cost.violations, testing::IsEmpty());
  const auto priced = analyzeDataflow(nest, one->tree, machine);
  ASSERT_TRUE(priced.ok()) << priced.status();
  EXPECT_EQ(priced->cycles, one->score);
}

TEST(Annealing, ItsTreesAreInTheSpaceOfTheExactSearch) {
  // A small space, which the exact search covers: no tree is better than its bound.
  const loopnest::Nest nest =
      loopnest::parse("chain", "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]", {4, 2, 2, 2}).value();
  for (const Objective objective : {Objective::kEnergy, Objective::kBytes, Objective::kCycles}) {
    const cost::Machine machine = threeLevelChip();
    Options options;
    options.objective = objective;
    const auto exact = searchExact(nest, machine, options);
    ASSERT_TRUE(exact.ok() && exact->complete && exact->best) << exact.status();
    const auto annealed =
        searchByAnnealing(nest, machine, {.objective = objective, .restriction = {}, .proposals = 3000});
    ASSERT_TRUE(annealed);
    EXPECT_GE(annealed->score, exact->space_bound * (1 - 1e-9)) << printSchedule(annealed->tree);
    EXPECT_LE(annealed->score, exact->best->score * 1.1) << printSchedule(annealed->tree);
  }
}

TEST(Annealing, ARestrictionHoldsAndAStopEnds) {
  const loopnest::Nest nest = productChain();
  const cost::Machine machine = threeLevelChip();
  AnnealingOptions options{
      .objective = Objective::kBytes, .restriction = restrictionOf("Layerwise", nest).value(), .proposals = 1000};
  const auto found = searchByAnnealing(nest, machine, options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tree.phases_size(), 2);
  options.stopped = [] { return true; };
  EXPECT_FALSE(searchByAnnealing(nest, machine, options));
}

}  // namespace
}  // namespace tessera::compiler::dataflow_search
