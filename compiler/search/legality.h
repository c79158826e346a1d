#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compiler/search/space.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::search {

/// What a tree says of the loops it goes round: a parallel loop without a loop around its tile is as long as the tile.
/// Loops that are walked in steps are longer than the step; how much is not said, and they are left out.
Extents extentsOf(const v1::Schedule& schedule);

/// Keeps trees from being proposed that code generation is known to refuse, or that the chip has no room for: what
/// follows from the tree itself, from extents and registers where they are known, and from earlier refusals.
class Legality {
 public:
  /// `extents`: of the workload's loops, added to what `start`, a tree that can be followed, says of them; those that
  /// it contradicts are left out. `registers`: of the chip, as far as they are known; vectors
  /// may be as wide as the start's in any case.
  Legality(const v1::Schedule& start, Extents extents, const v1::RegisterFile& registers);

  /// Why the tree cannot be followed; empty where nothing speaks against it.
  std::string refusal(const v1::Schedule& schedule) const;

  /// Whether this direction of this tile was refused several times and never followed.
  bool hopeless(const Direction& direction) const;
  void note(const Direction& direction, bool followed);

  const Extents& extents() const { return extents_; }

 private:
  std::string refusalOf(const v1::Tile& leaf, int vector_bits) const;

  Extents extents_;
  int vector_registers_;
  int most_vector_bits_;
  int64_t most_accumulators_;  ///< of one tile: those of the chip, or of the start where it holds more
  struct Count {
    int refused = 0, followed = 0;
  };
  std::map<std::string, Count> directions_;
};

}  // namespace tessera::compiler::search
