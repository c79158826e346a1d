#pragma once

#include <algorithm>
#include <utility>

#include "compiler/codegen/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// What a register tile of rows x columns dot products costs in one nest.
class DotCosts {
 public:
  DotCosts(const Nest& nest, const Chip& chip, const TilePlan& plan);
  /// Registers that a tile takes: its sums, the shorter side, and one vector of the longer one.
  static int64_t registers(int64_t rows, int64_t columns) { return rows * columns + std::min(rows, columns) + 1; }
  /// Cycles of one vector's step of a tile, of as many columns as that of `whole` columns has left.
  double step(int64_t rows, int64_t columns, int64_t whole) const;

 private:
  const Chip& chip_;
  int64_t columns_, vector_bytes_;
  bool stay_;  ///< the columns, in L1
};

/// Whether the nest multiplies two operands that both walk the vector loop.
bool multipliesAlongVectors(const Nest& nest, const TilePlan& plan);

/// The loops that walk one operand each: rows the first, columns the second; the innermost of several, -1: none.
std::pair<int, int> dotLoops(const Nest& nest);

/// Products whose vectors run along the reduction: rows x columns sums, each of whose lanes is added up at the end.
void planDots(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Operands of dot products that do not lie along the reduction are copied so that they do.
void planDotMemory(const Nest& nest, const Wanted& wanted, TilePlan& plan);

}  // namespace tessera::compiler::codegen
