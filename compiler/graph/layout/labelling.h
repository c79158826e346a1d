#pragma once

#include <cstddef>
#include <vector>

namespace tessera::compiler {

/// Chooses one label per variable, with a cost for each label and for each pair of labels, all in one unit. Infinity
/// forbids. Layout assignment reduces to this problem.
struct LabellingProblem {
  struct Edge {
    int a = 0, b = 0;           ///< variables, a != b
    std::vector<double> costs;  ///< [label of a][label of b], row-major
  };
  std::vector<std::vector<double>> costs;  ///< [variable][label]; at least one label each
  std::vector<Edge> edges;                 ///< costs of several edges between two variables add up

  int addVariable(std::vector<double> label_costs);
  /// Returns the cost of a complete labelling.
  double costOf(const std::vector<int>& labels) const;
};

struct Labelling {
  std::vector<int> labels;
  double cost = 0;
  bool exact = false;  ///< whether the labelling is optimal
};

/// Returns the cheapest labelling.
///
/// Variables are eliminated exactly, the one with the smallest table first: dynamic programming over the tree
/// decomposition of that order (Bertele and Brioschi, "Nonserial Dynamic Programming", 1972). With d labels, trees take
/// d^2 and series-parallel graphs d^3 per variable. If a table would exceed `max_table` entries, the variables that
/// cause it are fixed at their current labels and the rest is solved exactly; a bounded number of rounds with other
/// fixed variables follows while the cost falls. No round increases the cost. `starts` are complete initial labellings,
/// used in that case only. Ties go to the lower label. Deterministic.
Labelling solveLabelling(const LabellingProblem& problem, const std::vector<std::vector<int>>& starts = {},
                         size_t max_table = size_t{1} << 18);

}  // namespace tessera::compiler
