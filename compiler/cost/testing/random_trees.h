#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "compiler/cost/machine.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/schedule.pb.h"

/// Random tile trees for tests and benchmarks, from a seed.
namespace tessera::compiler::cost {

struct Problem {
  const char* name;
  const char* text;              ///< statements of loopnest::parse()
  std::vector<int64_t> extents;  ///< in the order of the loops' first occurrence
  std::vector<int64_t> odd;      ///< for steps that do not divide
};

/// Small ones of every form: products, convolutions, chains, attention, residuals, several readers.
const std::vector<Problem>& smallProblems();

class RandomTrees {
 public:
  /// Memories are named L0, L1, ..., the unit "core". `even`: steps divide the extents.
  RandomTrees(const loopnest::Nest& nest, int levels, bool even, uint64_t seed);

  /// The next tree. It may be invalid.
  v1::Schedule next();

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }
  void grow(v1::Tile& tile, const std::vector<int>& statements, int level);
  void addLoop(v1::Tile& tile, const std::vector<int>& statements);

  const loopnest::Nest& nest_;
  int levels_;
  bool even_;
  std::mt19937_64 random_;
  std::vector<std::vector<int64_t>> extents_;
};

/// How far the analysis is from the simulation.
struct Agreement {
  int trees = 0;
  int unequal_words = 0;           ///< trees in which a level and tensor moves other words
  std::string first_unequal = {};  ///< the first of them, printed
  double cycles_r2 = 0;
  double cycles_mean_error = 0, cycles_worst_error = 0, energy_mean_error = 0;  ///< relative
  std::string worst = {};  ///< the tree of the worst error, printed
};

/// Compares `trees` random trees: single operators, chains of products and of convolutions, attention, on four chips.
/// With a path, also writes one line per tree with both figures to the file.
Agreement compareRandomTrees(int trees, uint64_t seed, const std::string& csv = "");

}  // namespace tessera::compiler::cost
