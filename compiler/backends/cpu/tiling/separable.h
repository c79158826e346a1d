#pragma once

#include <optional>

#include "compiler/backends/cpu/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// One side of a transform: a small matrix known at compile time, [parallel loop][reduction loop].
struct TransformSide {
  int parallel = -1, reduction = -1;  ///< loops of the nest
  llvm::SmallVector<llvm::SmallVector<double>> matrix;
};

/// out[p, q, ...] = sum over i, j of L[p, i] R[q, j] in[i, j, ...] with constant L and R, as in Winograd's convolutions
/// (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016): L X R^T for every block X. Computed as
/// two passes of additions in registers with the matrices' entries as constants; zero entries cost nothing.
struct SeparableTransform {
  TransformSide left, right;
  int source = -1;  ///< input of the statement that is transformed
};

/// The transform that the first statement of a nest computes, or nothing. Its sum must start from zero.
std::optional<SeparableTransform> separableTransform(const Nest& nest);

/// Plans such a nest: one block and one vector at a time. Returns false when no loop can be the vector loop.
bool planTransform(const Nest& nest, const SeparableTransform& transform, int lanes, TilePlan& plan);

}  // namespace tessera::compiler::codegen
