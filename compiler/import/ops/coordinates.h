#pragma once

#include "compiler/import/emitter.h"

namespace tessera::compiler {

/// A coordinate of generate() (index type) as an i64, to compute with.
mlir::Value position(const Scalars& s, mlir::Value coordinate);

/// An i64 position as a coordinate for extract(); outside [0, dim) it is clamped to the nearest one inside,
/// so that no value a tensor holds at run time leads out of a buffer. Requires dim >= 1.
mlir::Value clampedCoordinate(const Scalars& s, mlir::Value position, int64_t dim);

/// Whether 0 <= position < dim, for an i64 position.
mlir::Value isInside(const Scalars& s, mlir::Value position, int64_t dim);

}  // namespace tessera::compiler
