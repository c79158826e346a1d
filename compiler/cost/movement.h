#pragma once

#include <cstdint>
#include <vector>

#include "compiler/cost/walk.h"

/// What moves over one boundary: between a buffer (or the operands of a leaf's instruction) and the tile outside of it
/// that holds the tensor (equations 3.8 to 3.11).
namespace tessera::compiler::cost {

/// Larger footprints count as this many words, so that their bytes and sums are exact integers.
inline constexpr double kMaxWords = 0x1p52;

/// Words that each loop's steps bring over a boundary, over the whole run.
struct BoundaryMoves {
  LoopMoves first = {};
  absl::InlinedVector<LoopMoves, 12> by_loop = {};
};

/// The buffer of one tensor for children of one tile, at one level. Children that access the tensor share the buffer if
/// they move through the tensor alike and their slices unite to one slice.
struct Boundary {
  int tile = 0;    ///< whose loops move the slice
  int level = -1;  ///< of the buffer; -1: operands of a leaf's instruction
  int tensor = 0;
  int source = 0;                 ///< tile that holds the tensor outside of the buffer
  std::vector<int> members = {};  ///< children that share the buffer; empty for operands
  bool filled = false;            ///< children read the tensor, and none of them writes it
  bool drained = false;           ///< a child writes the tensor, and others than members read it
  int64_t words = 0;              ///< of one instance
  // Words over the whole run, over all instances.
  double filled_words = 0;  ///< received by the buffers, without partial sums
  double read_words = 0;  ///< sent by the source for them; equal words for several instances of a time step count once
  double drained_words = 0;    ///< sent by the buffers
  double update_words = 0;     ///< received by the source: sums of several instances are added on the way
  double partial_words = 0;    ///< sums that return from the source to be continued
  BoundaryMoves fills = {};    ///< if filled
  BoundaryMoves results = {};  ///< if drained: results whose place is entered; as many leave
};

/// All boundaries, those of outer tiles first.
std::vector<Boundary> boundariesOf(const BoundTree& tree);

}  // namespace tessera::compiler::cost
