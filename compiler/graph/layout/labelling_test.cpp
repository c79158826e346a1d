#include "compiler/graph/layout/labelling.h"

#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace tessera::compiler {
namespace {

/// Small whole numbers, so that sums are exact and ties are frequent; some pairs are forbidden.
LabellingProblem randomProblem(std::mt19937& random, int variables, double density, double forbidden) {
  std::uniform_real_distribution<double> unit(0, 1);
  auto price = [&] { return static_cast<double>(random() % 20); };
  LabellingProblem problem;
  for (int v = 0; v < variables; ++v) {
    std::vector<double> costs(1 + random() % 4);
    for (double& cost : costs) cost = price();
    problem.addVariable(std::move(costs));
  }
  for (int a = 0; a < variables; ++a) {
    for (int b = 0; b < variables; ++b) {
      if (a == b || unit(random) > density / 2) continue;
      LabellingProblem::Edge edge{a, b, {}};
      for (size_t i = 0; i < problem.costs[a].size() * problem.costs[b].size(); ++i) {
        edge.costs.push_back(unit(random) < forbidden ? std::numeric_limits<double>::infinity() : price());
      }
      problem.edges.push_back(std::move(edge));
    }
  }
  return problem;
}

double bruteForce(const LabellingProblem& problem) {
  std::vector<int> labels(problem.costs.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  while (true) {
    best = std::min(best, problem.costOf(labels));
    size_t v = 0;
    while (v < labels.size() && ++labels[v] == static_cast<int>(problem.costs[v].size())) labels[v++] = 0;
    if (v == labels.size()) return best;
  }
}

TEST(Labelling, MatchesBruteForceOnRandomGraphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const int variables = 1 + static_cast<int>(random() % 8);
    LabellingProblem problem = randomProblem(random, variables, 0.1 * (round % 10 + 1), 0.1);
    Labelling found = solveLabelling(problem);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.cost, bruteForce(problem)) << "round " << round;
    EXPECT_EQ(found.cost, problem.costOf(found.labels));
  }
}

TEST(Labelling, BoundedTablesStayCloseAndNeverBelowTheOptimum) {
  std::mt19937 random(5);
  double sum = 0;
  double optimum = 0;
  for (int round = 0; round < 60; ++round) {
    LabellingProblem problem = randomProblem(random, 9, 0.8, 0);
    Labelling found = solveLabelling(problem, {}, 12);
    const double best = bruteForce(problem);
    EXPECT_GE(found.cost, best);
    sum += found.cost;
    optimum += best;
  }
  EXPECT_LE(sum, 1.1 * optimum);
}

TEST(Labelling, ALongChainWithBranchesIsExact) {
  // A ladder: series-parallel, 3000 variables.
  std::mt19937 random(3);
  LabellingProblem problem;
  for (int v = 0; v < 3000; ++v)
    problem.addVariable({double(random() % 9), double(random() % 9), double(random() % 9)});
  for (int v = 0; v + 2 < 3000; ++v) {
    for (int next : {v + 1, v + 2}) {
      LabellingProblem::Edge edge{v, next, std::vector<double>(9, 3)};
      for (int same : {0, 4, 8}) edge.costs[same] = 0;
      problem.edges.push_back(std::move(edge));
    }
  }
  Labelling found = solveLabelling(problem);
  EXPECT_TRUE(found.exact);
  for (int label = 0; label < 3; ++label) {
    EXPECT_LE(found.cost, problem.costOf(std::vector<int>(3000, label)));
  }
}

TEST(Labelling, StartsAreUsedWhereTheProblemIsTooWide) {
  // Complete graph: the only good labelling is uniform, and label 2 is the cheapest.
  LabellingProblem problem;
  for (int v = 0; v < 14; ++v) problem.addVariable({3, 2, 1});
  for (int a = 0; a < 14; ++a) {
    for (int b = 0; b < a; ++b) problem.edges.push_back({a, b, {0, 9, 9, 9, 0, 9, 9, 9, 0}});
  }
  Labelling found = solveLabelling(problem, {std::vector<int>(14, 2)}, 81);
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(found.cost, 14);
}

}  // namespace
}  // namespace tessera::compiler
