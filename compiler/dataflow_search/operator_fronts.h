#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/cost/machine.h"
#include "compiler/dataflow_search/operator_model.h"

/// Partial mappings of one operator: all its tiles inside of given surroundings, without those that another one
/// dominates.
namespace tessera::compiler::dataflow_search {

inline constexpr size_t kMaxLevels = 8;
inline constexpr size_t kMaxUnits = 4;

/// The figures of a partial mapping that can decide an objective. Fewer figures leave shorter fronts.
struct Figures {
  bool cycles = true;
  bool energy = false;
  bool resources = false;  ///< footprints, instances and units: operators that share a chip at the same time
};

/// A tile at one level with all tiles inside, for one step of the loops around and one of their instances.
struct Partial {
  double inner = 0;    ///< cycles of the tile's computation and of the ports further inwards
  double compute = 0;  ///< cycles of its computation
  /// Cycles of the first slices on their way to the first leaf, and of the last results from the last one: nothing
  /// overlaps them.
  double startup = 0, tail = 0;
  double in = 0, out = 0;                          ///< bytes through the ports of the tile's own level
  double energy = 0;                               ///< pJ, operations included
  std::array<int64_t, kMaxLevels> footprint = {};  ///< bytes at the levels inside, one instance
  std::array<int64_t, kMaxLevels> instances = {};  ///< of the levels inside
  std::array<int64_t, kMaxUnits> units = {};       ///< of each kind
  // How it is made.
  TileLoops loops = {};
  int unit = 0;                                  ///< of the leaf
  const std::vector<Partial>* inside = nullptr;  ///< null at a leaf
  size_t choice = 0;                             ///< position in `inside`
};
using Front = std::vector<Partial>;

/// Whether `left` takes at most the footprint, instances and units of `right`, at each level and of each kind.
template <typename Mapping>
bool usesNoMore(const Mapping& left, const Mapping& right) {
  const auto atMost = [](const auto& some, const auto& others) {
    return std::ranges::equal(some, others, std::ranges::less_equal());
  };
  return atMost(left.footprint, right.footprint) && atMost(left.instances, right.instances) &&
         atMost(left.units, right.units);
}

/// Whether `left` is at least as good in each of the figures.
bool dominates(const Partial& left, const Partial& right, const Figures& figures);
/// Adds the partial unless another one dominates it, and removes those that it dominates.
void addTo(Front& front, Partial partial, const Figures& figures);

class OperatorFronts {
 public:
  /// `stopped` is polled; once it returns true, fronts are incomplete and must not be used.
  OperatorFronts(const loopnest::Nest& nest, const cost::Machine& machine, int statement, Figures figures,
                 std::function<bool()> stopped);

  /// Partial mappings that exceed it are not part of a better run.
  struct Limit {
    double cycles = 0;  ///< in one step of the surroundings
    double edges = 0;   ///< startup and tail
    bool covers(const Limit& other) const { return cycles >= other.cycles && edges >= other.edges; }
  };
  /// All tiles from `level` inwards within the limit. The result lives as long as this object, and may have others.
  const Front& front(const Surroundings& surroundings, int level, Limit limit);

  /// Tiles whose movement was computed.
  int64_t measured() const { return measured_; }

 private:
  Front leaves(const Surroundings& surroundings, const Limit& limit);
  Front tiles(const Surroundings& surroundings, int level, const Limit& limit);
  /// Adds all tiles with these loops. Returns false if they exceed the level inside or the limit in any order.
  bool addTiles(const Surroundings& surroundings, int level, const TileLoops& loops, const Limit& limit, Front& front);
  /// Instances of the level inside for each instance of the level.
  int64_t fanOut(int level) const;
  double energyOf(const BoundaryBytes& bytes, int level) const;
  /// A partial mapping with startup and tail of the boundary below a tile at `level`.
  Partial edgesOf(const BoundaryBytes& bytes, int level) const;

  const loopnest::Nest& nest_;
  const cost::Machine& machine_;
  const int statement_;
  const Figures figures_;
  const std::function<bool()> stopped_;
  OperatorModel model_;
  Movers movers_;
  std::vector<int> loops_, outer_loops_;  ///< that a leaf cuts, that other tiles cut
  struct Known {
    const Front* front = nullptr;
    Limit limit;  ///< that it was made for
  };
  absl::flat_hash_map<std::vector<int64_t>, Known> known_;
  std::deque<Front> fronts_;
  int64_t measured_ = 0;
};

/// The surroundings of the operator's next tile, inside of a tile with these loops.
Surroundings inside(const Surroundings& surroundings, const TileLoops& loops, size_t nest_loops);

}  // namespace tessera::compiler::dataflow_search
