#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/dataflow_search/search.h"

/// The search of the thesis (3.5.2): a genetic algorithm over computing orders and bindings, and for each of them a
/// Monte Carlo tree search over tile sizes. It gives no bound; searchExact() does.
namespace tessera::compiler::dataflow_search {

struct EvolutionOptions {
  Objective objective = Objective::kCycles;
  uint64_t seed = 0;
  int rounds = 50;      ///< generations
  int population = 20;  ///< structures of one generation
  int samples = 200;    ///< tilings tried for each structure
  size_t keep = 5;      ///< structures that survive a generation, and answers
  std::function<bool()> stopped = [] { return false; };
  std::function<void(const Found&)> better;
};

struct EvolutionAnswer {
  std::vector<Found> best;     ///< different structures, best first
  std::vector<double> rounds;  ///< the best score after each generation
  int64_t priced = 0;          ///< trees
};

/// Equal seeds give equal answers. Errors as searchExact().
absl::StatusOr<EvolutionAnswer> searchByEvolution(const loopnest::Nest& nest, const cost::Machine& machine,
                                                  const EvolutionOptions& options);

}  // namespace tessera::compiler::dataflow_search
