// The closed forms of the analysis against an execution step by step, on random trees.
#include "compiler/cost/simulate/simulate.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "compiler/cost/bound_tree.h"
#include "compiler/cost/testing/random_trees.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::cost {
namespace {

constexpr int kTrees = 300;  ///< compared, of each problem with steps that divide and with others

Machine machineOf(int levels) {
  Machine machine;
  for (int level = 0; level < levels; ++level)
    machine.memories.push_back(
        {.name = absl::StrCat("L", level), .read_bytes_per_cycle = 1, .write_bytes_per_cycle = 1});
  machine.units = {{.name = "core"}};
  return machine;
}

/// Number of the problem, and whether steps divide.
class Simulate : public ::testing::TestWithParam<std::tuple<size_t, bool>> {};

TEST_P(Simulate, CountsEqualTheClosedForms) {
  const auto [number, even] = GetParam();
  const Problem& problem = smallProblems()[number];
  const loopnest::Nest nest = loopnest::parse(problem.name, problem.text, even ? problem.extents : problem.odd).value();
  int compared = 0, moving = 0;
  for (const int levels : {2, 3, 4}) {
    const Machine machine = machineOf(levels);
    RandomTrees trees(nest, levels, even, 7 + number);
    for (int tries = 0; tries < 100 * kTrees && compared < kTrees * (levels - 1) / 3; ++tries) {
      const v1::Schedule tree = trees.next();
      const auto bound = bindTree(nest, tree, machine);
      if (!bound.ok() || bound->is_even != even) continue;
      double steps = 1;
      for (const StatementView& view : bound->statements) {
        double own = 1;
        for (const BoundLoop& loop : view.loops) own *= static_cast<double>(loop.count);
        steps = std::max(steps, own);
      }
      if (steps > 600) continue;
      ++compared;
      const DataflowCost cost = analyzeDataflow(nest, tree, machine).value();
      const DataflowCost expected = simulateDataflow(nest, tree, machine).value();
      const std::string where = absl::StrCat(problem.name, "\n", printSchedule(tree));
      ASSERT_EQ(cost.operations, expected.operations) << where;
      ASSERT_EQ(cost.units, expected.units) << where;
      for (size_t level = 0; level < expected.levels.size(); ++level) {
        ASSERT_EQ(cost.levels[level].units, expected.levels[level].units) << where << "L" << level;
        for (size_t tensor = 0; tensor < expected.levels[level].tensors.size(); ++tensor) {
          const Traffic &found = cost.levels[level].tensors[tensor], &counted = expected.levels[level].tensors[tensor];
          moving += found.fill > 0;
          const std::string place = absl::StrCat(where, "L", level, " ", found.tensor);
          ASSERT_EQ(found.read, counted.read) << place;
          ASSERT_EQ(found.fill, counted.fill) << place;
          ASSERT_EQ(found.update, counted.update) << place;
          ASSERT_EQ(found.drain, counted.drain) << place;
        }
      }
    }
  }
  EXPECT_EQ(compared, kTrees);
  EXPECT_GT(moving, 200);
}

TEST(Simulation, AgreesWithTheAnalysisOnFourChips) {
  const Agreement found = compareRandomTrees(112, 3);
  std::cout << "cycles R2 " << found.cycles_r2 << ", mean error " << found.cycles_mean_error << ", worst "
            << found.cycles_worst_error << "; energy mean error " << found.energy_mean_error << "\n";
  EXPECT_EQ(found.unequal_words, 0) << found.first_unequal;
  EXPECT_GE(found.cycles_r2, 0.99) << found.worst;
  EXPECT_LE(found.cycles_mean_error, 0.04) << found.worst;
  EXPECT_LE(found.energy_mean_error, 0.04);
}

INSTANTIATE_TEST_SUITE_P(Problems, Simulate,
                         ::testing::Combine(::testing::Range(size_t{0}, size_t{9}), ::testing::Bool()));

}  // namespace
}  // namespace tessera::compiler::cost
