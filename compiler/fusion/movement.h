#pragma once

#include <vector>

#include "compiler/fusion/chain.h"

namespace tessera::compiler::fusion {

/// Loops, outermost first (positions in Chain.loops). Loops left out have one block.
using Order = std::vector<int>;
/// Block size per loop, in the order of Chain.loops.
using Tiles = std::vector<int64_t>;

/// How much of an intermediate is held if a private loop of a member (its reduction, or a loop of the consumer only)
/// runs outside a loop that accesses the intermediate.
enum class Intermediates {
  kBlock,     ///< algorithm 1 to the letter: one block, for any order
  kRetained,  ///< as programs require: the loops inside that private loop count with their whole extent
};

/// Data moved between a memory level and the next farther one, and the capacity that the level needs.
struct Movement {
  double volume_bytes = 0;                     ///< DV
  double memory_bytes = 0;                     ///< MU
  std::vector<double> tensor_volume_bytes;     ///< DM, 0 for intermediates
  std::vector<double> tensor_footprint_bytes;  ///< DF
};

/// Chimera, algorithm 1: for each member in topological order, each input and output of the chain is moved as often as
/// its block is replaced. A loop that does not access the tensor replaces its block only if a loop inside it does. A
/// loop private to a producer does not count for its consumers.
Movement analyse(const Chain& chain, const Order& order, const Tiles& tiles,
                 Intermediates intermediates = Intermediates::kRetained);

/// Returns the operations of all blocks. These exceed the chain's operations if blocks of an intermediate overlap
/// (windows), since the overlap is recomputed.
double flopsOf(const Chain& chain, const Tiles& tiles);

/// Like flopsOf() above, for blocks that follow each other along `loop` in parts of `parts` and compute only new
/// elements.
double flopsOf(const Chain& chain, const Tiles& tiles, int loop, int64_t parts);

/// Returns the operations without blocks.
double flopsOf(const Chain& chain);

/// Returns the loops that can be ordered: more than one iteration and not `whole`.
std::vector<int> orderedLoops(const Chain& chain);

/// Returns the order for messages: "mlkn"; dots separate names of several letters.
std::string nameOf(const Chain& chain, const Order& order);

}  // namespace tessera::compiler::fusion
