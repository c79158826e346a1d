#pragma once

#include "compiler/codegen/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// A register tile of MI x NI accumulators (NI vectors wide) with MII registers for broadcast elements.
struct RegisterTile {
  int rows = 1;        ///< MI
  int vectors = 1;     ///< NI
  int broadcasts = 1;  ///< MII, divides MI

  int registers() const { return rows * vectors + vectors + broadcasts; }
  /// Multiply-adds per load or store over a reduction of `steps` (KI).
  double intensity(double steps) const {
    return rows * vectors * steps / (steps * (rows + vectors) + 2.0 * rows * vectors);
  }
};

/// Register tile, loop order, packing and cache blocks of a contraction whose vector loop is chosen.
void planContraction(const Nest& nest, const Chip& chip, const Wanted& wanted, TilePlan& plan);

/// After the reductions are ordered and unrolled: what is packed, what is blocked, the levels.
void planMemory(const Nest& nest, const Chip& chip, const Wanted& wanted, TilePlan& plan);

/// Whether input `input` can be copied to panels: each element is walked at one point of its loops only.
bool canPack(const Nest& nest, int input);

/// Where a blocked reduction keeps its partial sums: an output in memory with the accumulators' element type that
/// nothing in the nest reads. Nothing when there is none.
std::optional<RegisterRef> partialSums(const Nest& nest);

}  // namespace tessera::compiler::codegen
