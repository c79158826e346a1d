#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "compiler/cost/machine.h"
#include "compiler/loopnest/nest.h"
#include "tessera/v1/schedule.pb.h"

/// Monte Carlo tree search over tile sizes (thesis, 3.5.2 and figure 3.7 c).
namespace tessera::compiler::dataflow_search {

/// The computing order and the bindings of a dataflow, without tile sizes (figure 3.7 b).
struct Structure {
  std::vector<bool> fused;             ///< whether a statement shares a phase with the next one
  std::vector<int> split;              ///< by the first statement of a phase: level of the tile that joins it
  std::vector<v1::Tile::Join> joins;   ///< by the first statement of a phase
  std::vector<std::vector<int>> rank;  ///< by level and loop: loops of lower rank are further outside
  bool operator==(const Structure&) const = default;
};

class TilingSearch {
 public:
  /// Returns the score of a tree, lower is better; infinity if the tree is not valid.
  using Price = std::function<double(const v1::Schedule&)>;

  TilingSearch(const loopnest::Nest& nest, const cost::Machine& machine, Structure structure, Price price);

  /// Chooses one tile size after another, by upper confidence bounds where they are known, and prices the tree. Sizes
  /// that cannot fit a memory, and spatial counts beyond the instances that are left, are not offered.
  void sample(std::mt19937_64& random);

 private:
  /// A node of the Monte Carlo tree: the sizes chosen so far.
  struct Node {
    double reward = 0;
    int64_t visits = 0;
    std::map<size_t, size_t> next = {};  ///< by choice: position in nodes_
  };
  struct Choice {
    int64_t spatial = 1, step = 1;
  };
  struct Tile {
    v1::Tile* proto = nullptr;
    int level = 0;
    int begin = 0, end = 0;  ///< statements
  };

  bool decideTile(const Tile& tile, std::vector<int64_t>& extents, std::mt19937_64& random);
  std::vector<Choice> choices(const Tile& tile, int loop, const std::vector<int64_t>& extents, int64_t instances,
                              double iterations, const std::vector<bool>& decided) const;
  bool couldFit(const Tile& tile, const std::vector<int64_t>& extents, const std::vector<bool>& decided) const;
  size_t select(size_t choices, std::mt19937_64& random);
  bool buildPhase(v1::Schedule& schedule, int begin, int end, std::mt19937_64& random);

  const loopnest::Nest& nest_;
  const cost::Machine& machine_;
  const Structure structure_;
  const Price price_;
  std::vector<bool> windows_;
  std::vector<Node> nodes_;
  std::vector<size_t> path_;  ///< of the current sample
  double best_ = 0;           ///< score of the best sample; 0: none
};

}  // namespace tessera::compiler::dataflow_search
