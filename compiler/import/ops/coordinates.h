#pragma once

#include "compiler/import/emitter.h"

namespace tessera::compiler {

/// Returns a coordinate of generate() (index type) as an i64.
mlir::Value position(const Scalars& s, mlir::Value coordinate);

/// Returns an i64 position as a coordinate for extract(), clamped to [0, dim), so that no tensor contents lead out of a
/// buffer. Requires dim >= 1.
mlir::Value clampedCoordinate(const Scalars& s, mlir::Value position, int64_t dim);

/// Returns whether 0 <= position < dim, for an i64 position.
mlir::Value isInside(const Scalars& s, mlir::Value position, int64_t dim);

}  // namespace tessera::compiler
