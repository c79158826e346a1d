#pragma once

#include <vector>

#include "compiler/fusion/chain.h"

namespace tessera::compiler::fusion {

/// Loops, outermost first (positions in Chain.loops). Loops left out have one block.
using Order = std::vector<int>;
/// Block size per loop of the chain, in the order of Chain.loops.
using Tiles = std::vector<int64_t>;

/// Where an intermediate lives when a private loop of a member (its own reduction, or a loop of the consumer alone)
/// runs outside of a loop that accesses the intermediate.
enum class Intermediates {
  kBlock,     ///< algorithm 1 to the letter: one block is counted, whatever the order
  kRetained,  ///< what a program needs: the loops inside that private loop count with their whole extent
};

/// What moves between one memory level and the next farther one, and what the level must hold.
struct Movement {
  double volume_bytes = 0;                     ///< DV
  double memory_bytes = 0;                     ///< MU
  std::vector<double> tensor_volume_bytes;     ///< DM, 0 for intermediates
  std::vector<double> tensor_footprint_bytes;  ///< DF
};

/// Chimera, algorithm 1: for each member in topological order, each input and output of the chain is moved as often
/// as its block is replaced; loops that do not access it leave it alone until a loop inside of them does. A loop
/// private to a producer does not count for its consumers.
Movement analyse(const Chain& chain, const Order& order, const Tiles& tiles,
                 Intermediates intermediates = Intermediates::kRetained);

/// Operations of all blocks. More than those of the chain when blocks of an intermediate overlap (windows): the
/// overlap is computed again.
double flopsOf(const Chain& chain, const Tiles& tiles);

/// The same where blocks along `loop` follow each other in `parts` (of that loop) and compute only what they add.
double flopsOf(const Chain& chain, const Tiles& tiles, int loop, int64_t parts);

/// Operations without blocks.
double flopsOf(const Chain& chain);

/// The loops worth ordering: more than one iteration and not `whole`.
std::vector<int> orderedLoops(const Chain& chain);

/// "mlkn" for messages; names of several letters are separated by dots.
std::string nameOf(const Chain& chain, const Order& order);

}  // namespace tessera::compiler::fusion
