#pragma once

#include "compiler/fusion/movement.h"
#include "compiler/fusion/nested_planner.h"
#include "compiler/fusion/testing/cache_simulator.h"

namespace tessera::compiler::fusion {

/// Runs the block program of a chain of matrix products through a cache, as lines.
///
/// The program: one loop nest over the blocks in the given order; a producer's block runs in the first iteration of
/// the loops of its consumers alone, a consumer's block in the last of its producer's own. Every input and output is
/// packed block by block (each block starts on a line and is contiguous, as packing code leaves it); an intermediate
/// has a buffer of what it retains. Within a block the rows of the output are taken `panel_rows` at a time: each panel
/// of the first operand, all of the second one, the panel of the output, which is the order of the micro-kernel at the
/// granularity of its panels. With `within`, each member's block is cut further: it goes round in the smaller ones of
/// its one level, each packed like the others are.
struct BlockProgram {
  const Chain& chain;
  Order order;
  Tiles tiles;
  int64_t panel_rows = 48;
  int64_t line_bytes = 64;
  std::vector<NestedMember> within = {};
};

/// Drives `cache` with the trace of `program`; returns the number of line touches. Members of 2-D operands whose
/// first loop is the row of first operand and output (gemmChain without batch, and its `unfused` parts).
int64_t trace(const BlockProgram& program, CacheSimulator& cache);

}  // namespace tessera::compiler::fusion
