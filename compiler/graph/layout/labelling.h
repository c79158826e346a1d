#pragma once

#include <cstddef>
#include <vector>

namespace tessera::compiler {

/// A choice of one label per variable with a price on labels and on pairs of labels; all prices in one unit.
/// Infinity forbids. This is what layout assignment reduces to, and knows nothing of layouts.
struct LabellingProblem {
  struct Edge {
    int a = 0, b = 0;           ///< variables, a != b
    std::vector<double> costs;  ///< [label of a][label of b], row-major
  };
  std::vector<std::vector<double>> costs;  ///< [variable][label]; at least one label each
  std::vector<Edge> edges;                 ///< several between the same two variables add up

  int addVariable(std::vector<double> label_costs);
  /// The price of a whole choice.
  double costOf(const std::vector<int>& labels) const;
};

struct Labelling {
  std::vector<int> labels;
  double cost = 0;
  bool exact = false;  ///< no cheaper choice exists
};

/// The cheapest labelling.
///
/// Exact by eliminating variables, the one with the smallest table first: dynamic programming over the tree
/// decomposition which that order implies (Bertele and Brioschi, "Nonserial Dynamic Programming", 1972), so trees
/// take d^2 and series-parallel graphs d^3 per variable with d labels. Where a table would exceed `max_table`
/// entries, the variables that make it so are held at their current labels and the rest is solved exactly;
/// rounds with other held variables follow while the cost falls, at most a fixed number. Each round can only improve.
/// `starts` are complete guesses to begin from, used in that case only. Ties go to the lower label; deterministic.
Labelling solveLabelling(const LabellingProblem& problem, const std::vector<std::vector<int>>& starts = {},
                         size_t max_table = size_t{1} << 18);

}  // namespace tessera::compiler
