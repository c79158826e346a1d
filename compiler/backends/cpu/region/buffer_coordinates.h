#pragma once

#include "compiler/backends/cpu/nest.h"

/// Represents accesses as boxes, that is, one range per coordinate of a buffer. An access has only an offset and one
/// stride per loop; these functions recover the coordinates of the buffer from the strides.
namespace tessera::compiler::codegen {

/// The coordinates of a row-major buffer, slowest first: its dimensions without those of extent 1. If an operand views
/// a dimension as several, the dimension becomes several coordinates. Example: one nest walks a dimension of extent 6
/// with one loop, another nest walks it with two loops of extents 2 and 3. The coordinates then have the extents 2 and
/// 3, and the first nest's loop is split. The dimension stays one coordinate if some nest walks 4 or 5 of the 6
/// elements with one loop (padding), since such a loop cannot be split into whole threes.
struct Coordinates {
  llvm::SmallVector<int64_t> extents, strides;  ///< elements
  llvm::SmallVector<int> dims;                  ///< the buffer dimension that each coordinate is part of

  int size() const { return static_cast<int>(extents.size()); }
};

/// One coordinate as a function of the loops: start + sum of coefficient * loop; coefficients are positive.
struct Walk {
  int64_t start = 0;
  llvm::SmallVector<std::pair<int, int64_t>, 2> loops;  ///< loop, coefficient
};
using Walks = llvm::SmallVector<Walk, 4>;  ///< one per coordinate

/// The box that `access` walks within a nest of these extents; nothing if the access is not a box, because a loop
/// crosses coordinates or has a negative stride.
std::optional<Walks> walksOf(const Access& access, llvm::ArrayRef<int64_t> extents, const Coordinates& coordinates);

/// The coordinates of every buffer that `nests` touch, fine enough for all of their views. Splits loops that cover
/// several coordinates. Afterwards walksOf fails only for accesses that no split of loops turns into a box.
llvm::DenseMap<mlir::Value, Coordinates> commonCoordinates(std::vector<Nest>& nests);

}  // namespace tessera::compiler::codegen
