#pragma once

#include <vector>

#include "compiler/fusion/chain.h"

namespace tessera::compiler::fusion {

/// Loops, outermost first (positions in Chain.loops). Loops left out have one block.
using Order = std::vector<int>;
/// Block size per loop, in the order of Chain.loops.
using Tiles = std::vector<int64_t>;

/// A private loop of an intermediate is a loop of its producer or of a consumer that does not index it. In the chain
/// C[m,l] = A[m,k] B[k,l]; E[m,n] = C[m,l] D[l,n] with the intermediate C, k (the producer's reduction) and n (a loop
/// of the consumer only) are private. If n runs outside l, each iteration of n reads all blocks of C along l again.
/// This says how much of C is then held at once.
enum class IntermediateExtent {
  kBlock,     ///< algorithm 1 to the letter: one block, for any order of loops
  kRetained,  ///< as programs require: along loops inside a private loop, the whole extent
};

/// Data moved between a memory level and the next farther one, and the capacity that the level needs.
struct Movement {
  double volume_bytes = 0;                     ///< DV, the data volume: bytes moved, all tensors
  double memory_bytes = 0;                     ///< MU, the memory usage: bytes held at once, at most
  std::vector<double> tensor_volume_bytes;     ///< DM, data movement of each tensor; 0 for intermediates
  std::vector<double> tensor_footprint_bytes;  ///< DF, data footprint of each tensor: bytes of its block
};

/// Chimera, algorithm 1: for each member in topological order, each input and output of the chain is moved as often as
/// its block is replaced. A loop that does not access the tensor replaces its block only if a loop inside it does. A
/// loop that only one member has (such as k above) does not repeat the movement of later members.
Movement analyse(const Chain& chain, const Order& order, const Tiles& tiles,
                 IntermediateExtent intermediates = IntermediateExtent::kRetained);

/// Returns the operations of all blocks. These exceed the chain's operations if blocks of an intermediate overlap
/// (windows), since the overlap is recomputed.
double flopsOf(const Chain& chain, const Tiles& tiles);

/// Like flopsOf() above, for blocks along `loop` that are cut into `parts` sequences. In a sequence each block computes
/// only the elements that the block before it has not computed; the first block computes all of its elements.
double flopsInSequences(const Chain& chain, const Tiles& tiles, int loop, int64_t parts);

/// Returns the operations without blocks.
double flopsOf(const Chain& chain);

/// Returns the loops that can be ordered: more than one iteration and not `whole`.
std::vector<int> orderedLoops(const Chain& chain);

/// Returns the order for messages: "mlkn"; dots separate names of several letters.
std::string nameOf(const Chain& chain, const Order& order);

}  // namespace tessera::compiler::fusion
