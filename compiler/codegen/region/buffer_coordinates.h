#pragma once

#include "compiler/codegen/nest.h"

/// Accesses as boxes: the coordinates of a dense buffer that a loop nest walks, derived from strides alone.
namespace tessera::compiler::codegen {

/// Coordinates of a row-major buffer, slowest first, without dimensions of extent 1. A dimension that some operand
/// walks with two loops as [outer][inner] (a view with more dimensions) becomes two coordinates, unless another operand
/// walks it across the two and does not end at a boundary between them (padding).
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

/// The box that `access` walks within a nest of these extents; nothing when it is not a box (a loop that crosses
/// coordinates, a negative stride).
std::optional<Walks> walksOf(const Access& access, llvm::ArrayRef<int64_t> extents, const Coordinates& coordinates);

/// The coordinates of every buffer that `nests` touch, fine enough for all of their views. Splits loops that cover
/// several coordinates. Afterwards walksOf fails only for accesses that no splitting would make a box.
llvm::DenseMap<mlir::Value, Coordinates> commonCoordinates(std::vector<Nest>& nests);

}  // namespace tessera::compiler::codegen
