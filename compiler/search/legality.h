#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compiler/search/space.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::search {

/// Limit of a tile's points times its steps. Code generation applies the same one, to bound the code's size.
inline constexpr int64_t kMaxInTile = 2048;

/// Lengths of loops that a tree implies. If the leaf of a nest has no Loop along a parallel dimension, its tile covers
/// the whole dimension, so the dimension's length is the tile's size. Dimensions with a Loop are longer than its step
/// by an unknown amount and are omitted, as are nests with several leaves.
Extents extentsOf(const v1::Schedule& schedule);

/// Filters trees that code generation is known to refuse, or that the chip has no room for: derived from the tree
/// itself, from known extents and registers, and from earlier refusals.
class Legality {
 public:
  /// `extents`: of the workload's loops, merged with those that `start`, a valid tree, implies; entries that it
  /// contradicts are dropped. `registers`: of the chip, as far as known; vectors may be as wide as the start's in any
  /// case.
  Legality(const v1::Schedule& start, Extents extents, const v1::RegisterFile& registers);

  /// The reason why the tree is invalid; empty if none is known.
  std::string refusal(const v1::Schedule& schedule) const;

  /// Whether trials along this direction of this tile have failed several times and never succeeded.
  bool hopeless(const Direction& direction) const;
  /// Records a trial of a tree that lies one step along `direction`. `followed`: it was built and gave right results.
  void recordTrial(const Direction& direction, bool followed);

  const Extents& extents() const { return extents_; }

 private:
  std::string refusalOf(const v1::Tile& leaf, int vector_bits) const;

  Extents extents_;
  int vector_registers_;
  int most_vector_bits_;
  int64_t most_accumulators_;  ///< in one tile: the chip's registers, or the number in `start` if larger
  struct Count {
    int refused = 0, followed = 0;
  };
  std::map<std::string, Count> directions_;
};

}  // namespace tessera::compiler::search
