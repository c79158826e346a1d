#pragma once

#include "compiler/fusion/movement.h"
#include "compiler/fusion/nested_planner.h"
#include "compiler/fusion/testing/cache_simulator.h"

namespace tessera::compiler::fusion {

/// Simulates the block program of a chain of matrix products on a cache, as line accesses.
///
/// The program is one loop nest over the blocks in the given order. A producer's block runs in the first iteration of
/// the loops that only its consumers have, a consumer's block in the last iteration of its producer's private loops.
/// Every input and output is packed block by block (each block starts on a line and is contiguous, as after packing);
/// an intermediate has a buffer of its retained size. Within a block the rows of the output are processed `panel_rows`
/// at a time: each panel of the first operand, all of the second one, the panel of the output. This is the order of the
/// micro-kernel at the granularity of its panels. With `within`, each member's block is cut again into the smaller
/// blocks of its one level, each packed like the others.
struct BlockProgram {
  const Chain& chain;
  Order order;
  Tiles tiles;
  int64_t panel_rows = 48;
  int64_t line_bytes = 64;
  std::vector<NestedMember> within = {};
};

/// Accesses `cache` in the order of `program` and returns the number of line touches. Members must have 2-D operands
/// whose first loop is the row of first operand and output (gemmChain without batch, and its `unfused` parts).
int64_t trace(const BlockProgram& program, CacheSimulator& cache);

}  // namespace tessera::compiler::fusion
