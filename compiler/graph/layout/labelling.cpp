#include "compiler/graph/layout/labelling.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace tessera::compiler {
namespace {

constexpr int kMaxRounds = 12;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A table of costs over the labels of `variables`; the last one varies fastest.
struct Factor {
  std::vector<int> variables;  // ascending
  std::vector<double> table;
};

/// How the label of an eliminated variable follows from its neighbours at that time.
struct Rule {
  int variable = 0;
  std::vector<int> neighbours;
  std::vector<int> best;  // the label, indexed by the neighbours' labels
};

class Solver {
 public:
  Solver(const LabellingProblem& problem, size_t max_table) : problem_(problem), max_table_(max_table) {}

  /// Chooses variables to hold so that no table is too large. Avoids variables held before where possible.
  std::vector<bool> chooseHeld(const std::vector<int>& times_held) const;
  /// Returns the best labelling with the held variables as in `labels`.
  std::vector<int> solve(const std::vector<bool>& held, std::vector<int> labels) const;

 private:
  size_t extent(int variable) const { return problem_.costs[variable].size(); }
  std::vector<std::set<int>> neighbours(const std::vector<bool>& held) const;
  size_t tableSize(const std::set<int>& variables) const;
  Rule eliminate(int variable, std::vector<Factor>& factors, std::vector<std::vector<int>>& factors_of) const;

  const LabellingProblem& problem_;
  size_t max_table_;
};

/// Returns the entries of a table over these variables, or max_table_ + 1 if there are more.
size_t Solver::tableSize(const std::set<int>& variables) const {
  size_t size = 1;
  for (int variable : variables) {
    size *= extent(variable);
    if (size > max_table_) return max_table_ + 1;
  }
  return size;
}

/// Returns the graph of the problem without held variables.
std::vector<std::set<int>> Solver::neighbours(const std::vector<bool>& held) const {
  std::vector<std::set<int>> result(problem_.costs.size());
  for (const LabellingProblem::Edge& edge : problem_.edges) {
    if (held[edge.a] || held[edge.b]) continue;
    result[edge.a].insert(edge.b);
    result[edge.b].insert(edge.a);
  }
  return result;
}

struct Visited {
  int variable = 0;
  bool eliminated = true;  ///< its neighbours become adjacent to each other; otherwise it is only removed
};

/// Calls visit(variable, table size, queue) for the variables that are not held, smallest table first, until none is
/// left. visit returns the variable to remove and how.
template <typename TableSize, typename Visit>
void inOrder(std::vector<std::set<int>>& near, const std::vector<bool>& held, TableSize table_size, Visit visit) {
  std::set<std::pair<size_t, int>> queue;
  std::vector<size_t> key(near.size());
  for (size_t v = 0; v < near.size(); ++v) {
    if (held[v]) continue;
    key[v] = table_size(near[v]);
    queue.emplace(key[v], static_cast<int>(v));
  }
  while (!queue.empty()) {
    const auto [size, first] = *queue.begin();
    const Visited gone = visit(first, size, queue);
    queue.erase({key[gone.variable], gone.variable});
    const std::set<int> around = std::move(near[gone.variable]);
    near[gone.variable].clear();
    // Eliminating a variable makes its neighbours adjacent, because the new table depends on all of them.
    for (int a : around) {
      near[a].erase(gone.variable);
      if (gone.eliminated) near[a].insert(around.begin(), around.end());
      near[a].erase(a);
      queue.erase({key[a], a});
      key[a] = table_size(near[a]);
      queue.emplace(key[a], a);
    }
  }
}

std::vector<bool> Solver::chooseHeld(const std::vector<int>& times_held) const {
  std::vector<bool> held(problem_.costs.size(), false);
  auto size_of = [&](const std::set<int>& variables) { return tableSize(variables); };
  // Holding variables changes the elimination order, which may require holding more.
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<std::set<int>> near = neighbours(held);
    inOrder(near, std::vector<bool>(held), size_of, [&](int first, size_t size, const auto& queue) -> Visited {
      if (size <= max_table_) return {first, true};
      // Holds the remaining variable with the most neighbours, preferably one not held before.
      auto rank = [&](int a) { return std::tuple<int, int64_t, int>(times_held[a], -int64_t(near[a].size()), a); };
      int chosen = first;
      for (const auto& [key, a] : queue) {
        if (rank(a) < rank(chosen)) chosen = a;
      }
      held[chosen] = true;
      changed = true;
      return {chosen, false};
    });
  }
  return held;
}

/// Minimizes over `variable`: replaces its factors by one table over its neighbours, and returns its best label for
/// each of their labellings.
Rule Solver::eliminate(int variable, std::vector<Factor>& factors, std::vector<std::vector<int>>& factors_of) const {
  Rule rule{.variable = variable, .neighbours = {}, .best = {}};
  std::set<int> around;
  for (int f : factors_of[variable]) around.insert(factors[f].variables.begin(), factors[f].variables.end());
  around.erase(variable);
  rule.neighbours.assign(around.begin(), around.end());
  size_t size = 1;
  for (int v : rule.neighbours) size *= extent(v);

  // Per factor: the strides of its index by each neighbour and by the variable itself.
  struct Walk {
    const Factor* factor;
    std::vector<size_t> strides;
    size_t own = 0;
  };
  std::vector<Walk> walks;
  for (int f : factors_of[variable]) {
    Walk walk{&factors[f], std::vector<size_t>(rule.neighbours.size(), 0)};
    size_t stride = 1;
    for (size_t i = factors[f].variables.size(); i-- > 0;) {
      const int v = factors[f].variables[i];
      if (v == variable) {
        walk.own = stride;
      } else {
        walk.strides[std::lower_bound(rule.neighbours.begin(), rule.neighbours.end(), v) - rule.neighbours.begin()] =
            stride;
      }
      stride *= extent(v);
    }
    walks.push_back(std::move(walk));
  }
  Factor result{rule.neighbours, std::vector<double>(size)};
  rule.best.resize(size);
  std::vector<size_t> at(rule.neighbours.size(), 0);
  // For each labelling of the neighbours, the cheapest label of the variable.
  for (size_t index = 0; index < size; ++index) {
    double best = kInfinity;
    int label = 0;
    for (size_t own = 0; own < extent(variable); ++own) {
      double cost = problem_.costs[variable][own];
      for (const Walk& walk : walks) {
        size_t position = own * walk.own;
        for (size_t i = 0; i < at.size(); ++i) position += at[i] * walk.strides[i];
        cost += walk.factor->table[position];
      }
      if (cost < best) {
        best = cost;
        label = static_cast<int>(own);
      }
    }
    result.table[index] = best;
    rule.best[index] = label;
    // Advances the odometer of the neighbours' labels.
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < extent(rule.neighbours[i])) break;
      at[i] = 0;
    }
  }
  // The variable's factors are part of the new one.
  for (int f : std::vector<int>(factors_of[variable])) {
    for (int v : factors[f].variables) std::erase(factors_of[v], f);
    factors[f] = {};
  }
  for (int v : rule.neighbours) factors_of[v].push_back(static_cast<int>(factors.size()));
  factors.push_back(std::move(result));
  return rule;
}

std::vector<int> Solver::solve(const std::vector<bool>& held, std::vector<int> labels) const {
  const size_t count = problem_.costs.size();
  std::vector<Factor> factors;
  std::vector<std::vector<int>> factors_of(count);
  auto add = [&](Factor factor) {
    for (int v : factor.variables) factors_of[v].push_back(static_cast<int>(factors.size()));
    factors.push_back(std::move(factor));
  };
  // An edge to a held variable is a cost of the other variable alone.
  for (const LabellingProblem::Edge& edge : problem_.edges) {
    const size_t columns = extent(edge.b);
    Factor factor;
    if (held[edge.a] && held[edge.b]) continue;
    if (held[edge.a]) {
      factor.variables = {edge.b};
      const auto* row = edge.costs.data() + labels[edge.a] * columns;
      factor.table.assign(row, row + columns);
    } else if (held[edge.b]) {
      factor.variables = {edge.a};
      for (size_t a = 0; a < extent(edge.a); ++a) factor.table.push_back(edge.costs[a * columns + labels[edge.b]]);
    } else if (edge.a < edge.b) {
      factor = {{edge.a, edge.b}, edge.costs};
    } else {
      factor.variables = {edge.b, edge.a};
      for (size_t b = 0; b < columns; ++b) {
        for (size_t a = 0; a < extent(edge.a); ++a) factor.table.push_back(edge.costs[a * columns + b]);
      }
    }
    add(std::move(factor));
  }
  std::vector<std::set<int>> near = neighbours(held);
  std::vector<Rule> rules;
  auto size_of = [&](const std::set<int>& variables) { return tableSize(variables); };
  inOrder(near, held, size_of, [&](int v, size_t, const auto&) -> Visited {
    rules.push_back(eliminate(v, factors, factors_of));
    return {v, true};
  });
  // Backwards: when a rule is applied, its neighbours already have their labels.
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
    size_t index = 0;
    for (int v : rule->neighbours) index = index * extent(v) + labels[v];
    labels[rule->variable] = rule->best[index];
  }
  return labels;
}

}  // namespace

int LabellingProblem::addVariable(std::vector<double> label_costs) {
  costs.push_back(std::move(label_costs));
  return static_cast<int>(costs.size()) - 1;
}

double LabellingProblem::costOf(const std::vector<int>& labels) const {
  double total = 0;
  for (size_t v = 0; v < costs.size(); ++v) total += costs[v][labels[v]];
  for (const Edge& edge : edges) total += edge.costs[labels[edge.a] * costs[edge.b].size() + labels[edge.b]];
  return total;
}

Labelling solveLabelling(const LabellingProblem& problem, const std::vector<std::vector<int>>& starts,
                         size_t max_table) {
  const size_t count = problem.costs.size();
  const Solver solver(problem, max_table);
  std::vector<int> times_held(count, 0);
  std::vector<bool> held = solver.chooseHeld(times_held);
  std::vector<int> labels(count, 0);
  if (std::none_of(held.begin(), held.end(), [](bool h) { return h; })) {
    labels = solver.solve(held, labels);
    return {labels, problem.costOf(labels), true};
  }
  // Not exact: starts from the cheapest guess, then solves with changing sets of held variables. Each round keeps the
  // held labels, so the cost never increases.
  double cost = problem.costOf(labels);
  for (const std::vector<int>& start : starts) {
    if (const double other = problem.costOf(start); other < cost) cost = other, labels = start;
  }
  int without_gain = 0;
  for (int round = 0; round < kMaxRounds && without_gain < 3; ++round) {
    labels = solver.solve(held, std::move(labels));
    const double improved = problem.costOf(labels);
    without_gain = improved < cost ? 0 : without_gain + 1;
    cost = improved;
    for (size_t v = 0; v < count; ++v) times_held[v] += held[v];
    held = solver.chooseHeld(times_held);
  }
  return {labels, cost, false};
}

}  // namespace tessera::compiler
