// Compares tables of trees with the trees themselves.
#include "compiler/import/ops/tree_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"

namespace tessera::compiler {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Evaluates a branch for x by the standard.
bool isTrue(const TreeBranch& branch, double x) {
  if (std::isnan(x) && branch.missing_is_true) return true;
  switch (branch.mode) {
    case BranchMode::kLessOrEqual:
      return x <= branch.split;
    case BranchMode::kLess:
      return x < branch.split;
    case BranchMode::kGreaterOrEqual:
      return x >= branch.split;
    case BranchMode::kGreater:
      return x > branch.split;
    case BranchMode::kEqual:
      return x == branch.split;
    case BranchMode::kNotEqual:
      return x != branch.split;
    case BranchMode::kMember:
      return std::find(branch.members.begin(), branch.members.end(), x) != branch.members.end();
  }
  return false;
}

int64_t leafByBranches(const TreeEnsemble& ensemble, TreePlace place, const std::vector<double>& x) {
  while (!place.leaf) {
    const TreeBranch& branch = ensemble.branches[place.index];
    place = isTrue(branch, x[branch.feature]) ? branch.when_true : branch.when_false;
  }
  return place.index;
}

int64_t leafByTable(const TreeTable& table, int64_t tree, const std::vector<double>& x) {
  int64_t node = table.roots[tree];
  for (int64_t step = 0; step < table.depth; ++step) {
    const double value = x[table.keys[node] / 2];
    const bool first = value <= table.splits[node] || (std::isnan(value) && table.keys[node] % 2 == 1);
    node = table.children[node] + (first ? 0 : 1);
  }
  EXPECT_EQ(table.children[node], node) << "a walk ends in a leaf";
  return table.leaves[node];
}

/// Adds a random tree of `depth` levels or fewer and returns its root.
TreePlace grow(TreeEnsemble& ensemble, std::mt19937& random, int64_t features, int depth,
               const std::vector<double>& values) {
  auto pick = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  if (depth == 0 || pick(8) == 0) {
    ensemble.leaves.push_back({{0, static_cast<double>(ensemble.leaves.size())}});
    return {true, static_cast<int64_t>(ensemble.leaves.size()) - 1};
  }
  TreeBranch branch = {.mode = static_cast<BranchMode>(pick(7)),
                       .feature = static_cast<int64_t>(pick(features)),
                       .split = values[pick(values.size())],
                       .missing_is_true = pick(2) == 1};
  for (size_t i = 0; branch.mode == BranchMode::kMember && i <= pick(6); ++i) {
    branch.members.push_back(values[pick(values.size())]);
  }
  branch.when_true = grow(ensemble, random, features, depth - 1, values);
  branch.when_false = grow(ensemble, random, features, depth - 1, values);
  ensemble.branches.push_back(std::move(branch));
  return {false, static_cast<int64_t>(ensemble.branches.size()) - 1};
}

// Adjacent numbers, both zeros, infinities and NaN, as splits, members and features.
TEST(TreeTable, WalksAsTheTreesDo) {
  std::mt19937 random(7);
  const float one = 1, after = std::nextafter(one, 2.0F), before = std::nextafter(one, 0.0F);
  const std::vector<double> values = {-kInfinity, -2, -0.0, 0.0, before, one, after, 3, kInfinity, kNan};
  for (int round = 0; round < 300; ++round) {
    TreeEnsemble ensemble;
    for (int tree = 0; tree < 3; ++tree) ensemble.roots.push_back(grow(ensemble, random, 4, 5, values));
    const bool single = round % 2 == 0;
    const auto table = tabulateTrees(ensemble, single);
    ASSERT_TRUE(table.ok()) << table.status();
    for (int row = 0; row < 20; ++row) {
      std::vector<double> x(4);
      for (double& value : x) value = values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
      for (int tree = 0; tree < 3; ++tree) {
        ASSERT_EQ(leafByTable(*table, tree, x), leafByBranches(ensemble, ensemble.roots[tree], x)) << "round " << round;
      }
    }
  }
}

// Both sides of a comparison lead to the same subtree, which exists once: a chain of them does not grow exponentially.
TEST(TreeTable, AChainOfEqualitiesStaysSmall) {
  TreeEnsemble ensemble;
  ensemble.leaves.resize(2);
  constexpr int64_t kLength = 200;
  for (int64_t i = 0; i < kLength; ++i) {
    const TreePlace next = i + 1 < kLength ? TreePlace{false, i + 1} : TreePlace{true, 1};
    ensemble.branches.push_back(
        {.mode = BranchMode::kEqual, .split = static_cast<double>(i), .when_true = {true, 0}, .when_false = next});
  }
  ensemble.roots = {{false, 0}};
  const auto table = tabulateTrees(ensemble, true);
  ASSERT_TRUE(table.ok());
  EXPECT_LE(table->keys.size(), 4 * kLength + 1);
  EXPECT_LE(table->depth, 2 * kLength);
  EXPECT_EQ(leafByTable(*table, 0, {199}), 0);
  EXPECT_EQ(leafByTable(*table, 0, {200}), 1);
}

TEST(TreeTable, ATreeThatIsALeafHasNoSteps) {
  const auto table = tabulateTrees({.leaves = {{}}, .roots = {{true, 0}}}, true);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->depth, 0);
  EXPECT_EQ(leafByTable(*table, 0, {0}), 0);
}

TEST(TreeTable, ACycleIsRefused) {
  TreeEnsemble ensemble{
      .branches = {{.when_true = {true, 0}, .when_false = {false, 0}}}, .leaves = {{}}, .roots = {{false, 0}}};
  const auto table = tabulateTrees(ensemble, true);
  ASSERT_FALSE(table.ok());
  EXPECT_THAT(std::string(table.status().message()), HasSubstr("branch 0 is reached twice"));
}

}  // namespace
}  // namespace tessera::compiler
