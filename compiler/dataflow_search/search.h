#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/cost/dataflow.h"
#include "compiler/dataflow_search/phase_space.h"

/// Searches the tile trees of a problem on a chip, and states how far the answer is from the best possible one.
/// clients/docs/design/dataflow-search.md defines the space and proves the bounds.
namespace tessera::compiler::dataflow_search {

enum class Objective { kCycles, kEnergy, kEnergyDelay, kBytes };

/// The figures that objectives are made of.
struct Value {
  double cycles = 0, energy_pj = 0;
  double bytes = 0;  ///< through the ports of the outermost memory
};
Value valueOf(const cost::DataflowCost& cost);
/// What the objective minimizes: cycles, pJ, cycles * pJ, bytes.
double scoreOf(const Value& value, Objective objective);

/// A tree with its price by compiler/cost.
struct Found {
  v1::Schedule tree;
  cost::DataflowCost cost;
  double score = 0;
};

/// Lower bounds for every tree that the chip can run, inside or outside of the space. Each element that is needed moves
/// once, and all units and ports work all the time.
struct LowerBound {
  Value least;
  double score = 0;    ///< of the objective
  std::string reason;  ///< which limit gives `least.cycles`: "computation", "reads of DRAM", ...
};
absl::StatusOr<LowerBound> lowerBound(const loopnest::Nest& nest, const cost::Machine& machine, Objective objective);

struct Options {
  Objective objective = Objective::kCycles;
  Restriction restriction;
  bool front = false;  ///< also returns every tree that no other one beats in cycles, energy and bytes at once
  int threads = 1;
  uint64_t seed = 1;                 ///< of the annealing that begins the search of a large space
  int64_t most_proposals = 150'000;  ///< of the annealing
  /// Polled often, by several threads at once if `threads` is above 1; once it returns true, the search ends with the
  /// best tree so far.
  std::function<bool()> stopped = [] { return false; };
  /// Called for each better tree, with a score that no tree of the space is below.
  std::function<void(const Found& found, double at_least)> better;
};

struct Answer {
  std::optional<Found> best;  ///< none: no tree of the space fits the chip
  bool complete = false;      ///< the whole space was searched or excluded by bounds
  std::string obstacle;       ///< why no tree can fit the chip, if that is known without a search
  double space_bound = 0;     ///< no tree of the space has a smaller score
  LowerBound bound;           ///< for every tree of the language
  std::vector<Found> front;   ///< by ascending cycles; empty unless asked for
  int64_t phases = 0;         ///< sets of shared tiles within the limits of the chip
  int64_t expanded = 0;       ///< those whose operators were mapped; bounds exclude the others
  int64_t measured = 0;       ///< tiles of single operators whose movement was computed

  /// How far the best tree may be from the best of the space, and of the language, as a fraction of the score.
  double gapInSpace() const;
  double gapToBound() const;
};

/// Partial mappings of each operator, pruned by Pareto dominance, joined over the operators of a phase, and phases
/// joined over the run (the method of FFM, on tile trees). Fails with INVALID_ARGUMENT if the problem is not affine or
/// is outside of what the space describes, and with INTERNAL if the price by compiler/cost contradicts the search's.
absl::StatusOr<Answer> searchExact(const loopnest::Nest& nest, const cost::Machine& machine, const Options& options);

/// INVALID_ARGUMENT, naming the statement or the number at fault, if the space cannot describe the problem or the chip.
absl::Status checkSearchable(const loopnest::Nest& nest, const cost::Machine& machine);

/// The first statement and memory level for which even tiles of single iterations are too large, with the bytes; empty:
/// there is none, so that trees of the space fit the chip.
std::string tooLargeTile(const loopnest::Nest& nest, const cost::Machine& machine);

/// The machine without kinds of units that are parts of an earlier kind: together they compute as much.
cost::Machine withoutFinerUnits(cost::Machine machine);

/// Parts of the language that the space has none of, one sentence each.
std::vector<std::string> leftOut(const loopnest::Nest& nest, const cost::Machine& machine);

}  // namespace tessera::compiler::dataflow_search
