#pragma once

#include <algorithm>
#include <utility>

#include "compiler/backends/cpu/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// The cost of a register tile of rows x columns dot products in one nest.
class DotCosts {
 public:
  DotCosts(const Nest& nest, const Chip& chip, const TilePlan& plan);
  /// Registers that a tile needs: its sums, the shorter side, and one vector of the longer one.
  static int64_t registers(int64_t rows, int64_t columns) { return rows * columns + std::min(rows, columns) + 1; }
  /// Cycles of one vector step of a tile of `rows` x `columns`. `whole`: columns of a full tile; a tile at the edge has
  /// fewer.
  double step(int64_t rows, int64_t columns, int64_t whole) const;

 private:
  const Chip& chip_;
  int64_t columns_, vector_bytes_;
  bool stay_;  ///< whether the columns stay in L1
};

/// Whether the nest multiplies two operands that both walk the vector loop.
bool multipliesAlongVectors(const Nest& nest, const TilePlan& plan);

/// The loops that walk one operand only: {loop of rows, walks the first operand; loop of columns, walks the second}.
/// The innermost one if there are several; -1: none.
std::pair<int, int> dotLoops(const Nest& nest);

/// Plans products whose vectors run along the reduction. A tile has rows x columns sums; the lanes of each sum are
/// added up at the end.
void planDots(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Packs operands of dot products that are not contiguous along the reduction, so that they become so.
void planDotMemory(const Nest& nest, const PlanConstraints& wanted, TilePlan& plan);

}  // namespace tessera::compiler::codegen
