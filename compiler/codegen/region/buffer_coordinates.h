#pragma once

#include "compiler/codegen/nest.h"

/// Accesses as boxes: which coordinates of a dense buffer a loop nest walks, found from strides alone.
namespace tessera::compiler::codegen {

/// Coordinates of a row-major buffer, slowest first, dimensions of extent 1 left out. A dimension that some operand
/// walks with two loops as [outer][inner] (a view with more dimensions) is two coordinates, unless somebody else walks
/// it across these and not to an end of one (what is filled up).
struct Coordinates {
  llvm::SmallVector<int64_t> extents, strides;  ///< elements
  llvm::SmallVector<int> dims;                  ///< the dimension of the buffer each is a part of

  int size() const { return static_cast<int>(extents.size()); }
};

/// One coordinate as a function of the loops: start + sum of coefficient * loop; coefficients are positive.
struct Walk {
  int64_t start = 0;
  llvm::SmallVector<std::pair<int, int64_t>, 2> loops;  ///< loop, coefficient
};
using Walks = llvm::SmallVector<Walk, 4>;  ///< one per coordinate

/// What `access` walks within a nest of these extents; nothing when it is no box (a loop that runs across
/// coordinates, a negative stride).
std::optional<Walks> walksOf(const Access& access, llvm::ArrayRef<int64_t> extents, const Coordinates& coordinates);

/// The coordinates of every buffer that `nests` touch, fine enough for all of their views; loops that cover several
/// coordinates are split. Afterwards walksOf fails only for accesses that no splitting would make a box.
llvm::DenseMap<mlir::Value, Coordinates> commonCoordinates(std::vector<Nest>& nests);

}  // namespace tessera::compiler::codegen
