#pragma once

#include "compiler/fusion/movement.h"

namespace tessera::compiler::fusion {

/// One tensor's contribution to DV, the data volume (movement.h): the bytes of its block, times the number of blocks of
/// each loop in `replaced_by`, since each iteration of these loops over blocks replaces the tensor's block by another.
struct Traffic {
  int tensor = 0;
  std::vector<int> replaced_by;  ///< loops, positions in Chain.loops
  auto operator<=>(const Traffic&) const = default;
};

/// Algorithm 1 for one order with symbolic block sizes. Orders of equal structure have equal volumes for all block
/// sizes; hundreds of permutations have only a few structures.
struct Structure {
  Structure(const Chain& chain, const Order& order, IntermediateExtent intermediates);

  /// Returns the bytes of the block of `tensor`, with retained dimensions in full.
  double bytes(int tensor, const Tiles& tiles) const;

  /// Returns the bytes of all blocks that `part` moves, as often as the loops that replace them run. The last block of
  /// a loop is narrower, so blocks count with their mean width; a tensor whose loops all run once moves exactly its
  /// size.
  double moved(const Traffic& part, const Tiles& tiles) const;

  /// Returns the size of the block and of the retained part along one subscript, for real block sizes.
  template <typename Number>
  Number extentOf(int tensor, size_t dimension, const std::vector<Number>& tiles) const {
    Number size = 1;
    for (const Term& term : chain->accesses[tensor].subscripts[dimension].terms)
      size += static_cast<Number>(term.coefficient) *
              ((retained[tensor] >> term.loop & 1 ? static_cast<Number>(chain->loops[term.loop].extent)
                                                  : tiles[term.loop]) -
               1);
    return size;
  }

  bool sameAs(const Structure& other) const {
    return traffic == other.traffic && retained == other.retained && resident == other.resident;
  }

  const Chain* chain;
  std::vector<Traffic> traffic;
  std::vector<uint64_t> retained;          ///< per tensor: a bit per loop that counts with its whole extent
  std::vector<std::vector<int>> resident;  ///< per member: tensors that its blocks need at the same time
};

}  // namespace tessera::compiler::fusion
