#include <array>
#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "compiler/cost/bound_tree.h"
#include "compiler/cost/simulate/simulate.h"
#include "compiler/cost/testing/random_trees.h"
#include "compiler/schedule/text.h"

namespace tessera::compiler::cost {
namespace {

/// Extents that give some thousand steps.
const std::vector<Problem>& timedProblems() {
  static const std::vector<Problem> all = {
      {"product", "C[m, n] += A[m, k] * B[k, n]", {16, 24, 16}, {17, 23, 13}},
      {"convolution", "O[k, p, q] += I[c, p + r, q + s] * W[k, c, r, s]", {8, 6, 6, 4, 3, 3}, {7, 5, 7, 5, 3, 3}},
      {"strided convolution", "O[k, p] += I[c, 2 * p + r] * W[k, c, r]", {8, 16, 8, 3}, {7, 17, 5, 3}},
      {"chain of products",
       "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]",
       {16, 16, 8, 12},
       {17, 13, 7, 11}},
      {"three products",
       "C[m, l] += A[m, k] * B[k, l]; E[m, n] += C[m, l] * D[l, n]; G[m, j] += E[m, n] * F[n, j]",
       {12, 8, 8, 8, 8},
       {13, 7, 5, 11, 7}},
      {"chain of convolutions",
       "M[k, p, q] += I[c, p + r, q + s] * W[k, c, r, s]; O[j, x, y] += M[k, x + u, y + v] * V[j, k, u, v]",
       {4, 8, 8, 4, 3, 3, 4, 6, 6, 3, 3},
       {3, 9, 7, 5, 3, 3, 5, 7, 5, 3, 3}},
      {"attention",
       "S[m, l] += Q[m, k] * K[l, k]; M[m] = max(S[m, l]); T[m, l] = S[m, l] - M[m]; P[m, l] = exp(T[m, l]); "
       "D[m] = P[m, l]; N[m, l] = P[m, l] / D[m]; O[m, n] += N[m, l] * V[l, n]",
       {16, 16, 8, 8},
       {17, 13, 7, 8}},
  };
  return all;
}

/// Memories innermost first: two levels; three with a slow outermost memory; four with unlimited registers; five with
/// fast memories.
const std::vector<Machine>& chips() {
  static const std::vector<Machine> all = [] {
    const auto chip = [](const std::vector<std::array<double, 3>>& memories, double operations) {
      Machine machine;
      for (const auto& [read, write, energy] : memories)
        machine.memories.push_back({.name = absl::StrCat("L", machine.memories.size()),
                                    .instances = 64,
                                    .read_bytes_per_cycle = read,
                                    .write_bytes_per_cycle = write,
                                    .energy_pj_per_byte = energy});
      machine.units = {{.name = "core", .count = 64, .operations_per_cycle = operations}};
      machine.energy_pj_per_operation = 0.5;
      return machine;
    };
    return std::vector<Machine>{chip({{32, 16, 0.2}, {8, 8, 20}}, 4), chip({{64, 64, 0.1}, {32, 16, 1}, {2, 1, 50}}, 8),
                                chip({{1e12, 1e12, 0.05}, {64, 32, 0.5}, {16, 16, 2}, {4, 4, 60}}, 16),
                                chip({{128, 128, 0.02}, {96, 96, 0.2}, {64, 64, 0.6}, {48, 48, 2}, {32, 32, 40}}, 2)};
  }();
  return all;
}

std::string differenceOf(const DataflowCost& found, const DataflowCost& expected) {
  for (size_t level = 0; level < expected.levels.size(); ++level) {
    for (size_t tensor = 0; tensor < expected.levels[level].tensors.size(); ++tensor) {
      const Traffic &left = found.levels[level].tensors[tensor], &right = expected.levels[level].tensors[tensor];
      const auto print = [](const Traffic& each) {
        return absl::StrCat("read ", each.read, ", fill ", each.fill, ", update ", each.update, ", drain ", each.drain);
      };
      if (left.read != right.read || left.fill != right.fill || left.update != right.update ||
          left.drain != right.drain)
        return absl::StrCat(found.levels[level].name, " ", left.tensor, ": ", print(left),
                            "; simulated: ", print(right));
    }
  }
  return "";
}

}  // namespace

Agreement compareRandomTrees(int trees, uint64_t seed, const std::string& csv) {
  Agreement agreement;
  std::ofstream file(csv);
  std::vector<std::pair<double, double>> cycles;
  std::vector<loopnest::Nest> nests;
  for (const Problem& problem : timedProblems()) {
    for (const bool even : {true, false})
      nests.push_back(loopnest::parse(problem.name, problem.text, even ? problem.extents : problem.odd).value());
  }
  std::vector<std::pair<const Machine*, RandomTrees>> draws;
  for (size_t n = 0; n < nests.size(); ++n)
    for (const Machine& chip : chips())
      draws.emplace_back(
          &chip, RandomTrees(nests[n], static_cast<int>(chip.memories.size()), n % 2 == 0, seed + draws.size()));
  for (size_t draw = 0; agreement.trees < trees; draw = (draw + 1) % draws.size()) {
    const Machine& machine = *draws[draw].first;
    const loopnest::Nest& nest = nests[draw / chips().size()];
    for (int tries = 0; tries < 10'000; ++tries) {
      const v1::Schedule tree = draws[draw].second.next();
      const auto bound = bindTree(nest, tree, machine);
      if (!bound.ok()) continue;
      double most = 0, least = 1e300;
      for (const StatementView& view : bound->statements) {
        double steps = 1;
        for (const BoundLoop& loop : view.loops) steps *= static_cast<double>(loop.count);
        most = std::max(most, steps);
        least = std::min(least, steps);
      }
      if (most > 20'000 || least < 4) continue;
      const DataflowCost found = analyzeDataflow(nest, tree, machine).value();
      const DataflowCost expected = simulateDataflow(nest, tree, machine).value();
      ++agreement.trees;
      const std::string difference = differenceOf(found, expected);
      if (!difference.empty() && agreement.unequal_words++ == 0)
        agreement.first_unequal = absl::StrCat(nest.name, "\n", printSchedule(tree), difference);
      const double error = std::abs(found.cycles / expected.cycles - 1);
      if (error > agreement.cycles_worst_error) {
        agreement.cycles_worst_error = error;
        agreement.worst =
            absl::StrCat(nest.name, "\n", printSchedule(tree), found.cycles, " cycles, simulated ", expected.cycles);
      }
      agreement.cycles_mean_error += error;
      agreement.energy_mean_error += std::abs(found.energy_pj / expected.energy_pj - 1);
      cycles.emplace_back(found.cycles, expected.cycles);
      if (file)
        file << nest.name << "," << machine.memories.size() << "," << found.cycles << "," << expected.cycles << ","
             << found.energy_pj << "," << expected.energy_pj << "," << error << "\n"
             << (error > 0.1 ? printSchedule(tree) : "");
      break;
    }
  }
  agreement.cycles_mean_error /= agreement.trees;
  agreement.energy_mean_error /= agreement.trees;
  double mean = 0, total = 0, residual = 0;
  for (const auto& [found, expected] : cycles) mean += expected / agreement.trees;
  for (const auto& [found, expected] : cycles) {
    total += (expected - mean) * (expected - mean);
    residual += (expected - found) * (expected - found);
  }
  agreement.cycles_r2 = 1 - residual / total;
  return agreement;
}

}  // namespace tessera::compiler::cost
