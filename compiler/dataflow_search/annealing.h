#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "compiler/dataflow_search/search.h"

/// Simulated annealing over the trees of the space, priced by compiler/cost. It gives no bound; a good tree found early
/// lets searchExact() exclude most of a large space.
namespace tessera::compiler::dataflow_search {

struct AnnealingOptions {
  Objective objective = Objective::kCycles;
  Restriction restriction;
  uint64_t seed = 1;
  int threads = 1;
  int64_t proposals = 60'000;  ///< trees priced in all
  /// Called from several threads at once.
  std::function<bool()> stopped = [] { return false; };
  /// Called after each round with a better tree.
  std::function<void(const Found&)> better = [](const Found&) {};
};

/// The best tree within the limits of the chip, if one was found. Equal seeds give equal answers for any number of
/// threads, unless `stopped` ends the search. The problem is one that checkSearchable() accepts.
std::optional<Found> searchByAnnealing(const loopnest::Nest& nest, const cost::Machine& machine,
                                       const AnnealingOptions& options);

}  // namespace tessera::compiler::dataflow_search
