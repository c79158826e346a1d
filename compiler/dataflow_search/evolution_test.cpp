#include "compiler/dataflow_search/evolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/dataflow_search/baselines.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::dataflow_search {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cost::Machine machine() {
  cost::Machine chip;
  chip.memories = {{.name = "L1",
                    .instances = 2,
                    .capacity_bytes = 256,
                    .read_bytes_per_cycle = 16,
                    .write_bytes_per_cycle = 16,
                    .energy_pj_per_byte = 1},
                   {.name = "DRAM", .read_bytes_per_cycle = 4, .write_bytes_per_cycle = 4, .energy_pj_per_byte = 20}};
  chip.units = {{.name = "core", .count = 2, .operations_per_cycle = 8}};
  return chip;
}

loopnest::Nest chain() {
  return loopnest::parse("chain", "C[h, m, l] += A[h, m, k] * B[h, k, l]; E[h, m, n] += C[h, m, l] * D[h, l, n]",
                         {2, 4, 4, 4, 2})
      .value();
}

TEST(Evolution, EqualSeedsGiveEqualAnswersThatTheExactSearchMatchesOrBeats) {
  const loopnest::Nest nest = chain();
  EvolutionOptions options;
  options.seed = 5;
  options.rounds = 4;
  options.samples = 50;
  const auto first = searchByEvolution(nest, machine(), options), second = searchByEvolution(nest, machine(), options);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  ASSERT_FALSE(first->best.empty());
  EXPECT_EQ(printSchedule(first->best.front().tree), printSchedule(second->best.front().tree));
  // Samples that run out of sizes that fit are not priced.
  EXPECT_GT(first->priced, 1000);
  EXPECT_LE(first->priced, 4 * 20 * 50);
  EXPECT_LE(first->best.size(), options.keep);
  for (size_t i = 1; i < first->rounds.size(); ++i) EXPECT_LE(first->rounds[i], first->rounds[i - 1]);
  const auto exact = searchExact(nest, machine(), {});
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_TRUE(exact->complete);
  EXPECT_LE(exact->bound.score, first->best.front().score);
}

TEST(Search, AStoppedSearchKeepsABound) {
  int polls = 0;
  Options options;
  options.objective = Objective::kEnergy;
  options.stopped = [&] { return ++polls > 2000; };
  const auto stopped = searchExact(chain(), machine(), options);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_FALSE(stopped->complete);
  options.stopped = [] { return false; };
  const auto whole = searchExact(chain(), machine(), options);
  ASSERT_TRUE(whole.ok() && whole->complete && whole->best);
  EXPECT_LE(stopped->space_bound, whole->best->score);
  if (stopped->best) {
    EXPECT_GE(stopped->best->score, whole->best->score);
  }
}

TEST(Search, TheFrontHasNoDominatedTree) {
  cost::Machine chip = machine();
  chip.memories[0].capacity_bytes = 96;
  Options options;
  options.front = true;
  const auto answer = searchExact(chain(), chip, options);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_FALSE(answer->front.empty());
  for (const Found& one : answer->front) {
    for (const Found& other : answer->front) {
      if (&one == &other) continue;
      const Value left = valueOf(one.cost), right = valueOf(other.cost);
      EXPECT_FALSE(left.cycles <= right.cycles && left.energy_pj <= right.energy_pj && left.bytes <= right.bytes);
    }
  }
  for (const Objective objective : {Objective::kEnergy, Objective::kBytes}) {
    Options single;
    single.objective = objective;
    const double best = searchExact(chain(), chip, single)->best->score;
    double of_front = 1e300;
    for (const Found& found : answer->front) of_front = std::min(of_front, scoreOf(valueOf(found.cost), objective));
    EXPECT_NEAR(of_front, best, 1e-9 * best);
  }
}

TEST(Baselines, RolesFollowFromTheLastProduct) {
  const loopnest::Nest nest = chain();  // loops h, m, l, k, n
  EXPECT_THAT(restrictionOf("Layerwise", nest)->phase_ends, ElementsAre(1, 2));
  EXPECT_THAT(restrictionOf("FLAT-HGran", nest)->shared_loops, ElementsAre(true, false, false, false, false));
  EXPECT_THAT(restrictionOf("FLAT-RGran", nest)->shared_loops, ElementsAre(true, true, false, false, false));
  EXPECT_THAT(restrictionOf("Chimera", nest)->shared_loops, ElementsAre(true, true, true, false, false));
  EXPECT_THAT(restrictionOf("Chimera", nest)->phase_ends, ElementsAre(2));
  EXPECT_THAT(std::string(restrictionOf("flat", nest).status().message()), HasSubstr("accepted: Layerwise, Uni-pipe"));
  for (const Baseline& baseline : baselines()) {
    Options options;
    options.restriction = restrictionOf(baseline.name, nest).value();
    options.restriction.ignore_limits = true;
    const auto answer = searchExact(nest, machine(), options);
    ASSERT_TRUE(answer.ok()) << baseline.name << ": " << answer.status();
    ASSERT_TRUE(answer->best) << baseline.name;
    EXPECT_GE(answer->best->score, answer->bound.score) << baseline.name;
  }
}

TEST(Search, ProblemsOutsideOfTheSpaceAreRefused) {
  const auto nest = loopnest::parse("scatter", "C[2 * m] = A[m]", {4}).value();
  EXPECT_THAT(std::string(searchExact(nest, machine(), {}).status().message()),
              HasSubstr("statement 'C' writes C at sums or multiples of loops"));
  cost::Machine flat = machine();
  flat.memories.resize(1);
  EXPECT_THAT(std::string(searchExact(chain(), flat, {}).status().message()), HasSubstr("the chip has 1 memories"));
}

TEST(Search, PartsOfUnitsAreNoFurtherUnits) {
  cost::Machine chip = machine();
  chip.units = {{.name = "core", .count = 2, .operations_per_cycle = 8},
                {.name = "lane", .count = 16, .operations_per_cycle = 1},
                {.name = "vector", .count = 2, .operations_per_cycle = 4}};
  const cost::Machine merged = withoutFinerUnits(chip);
  ASSERT_EQ(merged.units.size(), 2U);
  EXPECT_EQ(merged.units[1].name, "vector");
}

}  // namespace
}  // namespace tessera::compiler::dataflow_search
