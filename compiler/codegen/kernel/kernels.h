#pragma once

#include "compiler/codegen/tiling/micro_kernel.h"

/// The micro-kernels, each in the file of its family; registry.cpp lists them.
namespace tessera::compiler::codegen {

// simple_kernels.cpp
const MicroKernel& scalarKernel();       ///< plain loops, one point at a time
const MicroKernel& elementwiseKernel();  ///< no sum
/// no sum; operands strided along the vectors are transposed in registers, a square at a time
const MicroKernel& transposedKernel();
const MicroKernel& reductionKernel();   ///< sums, vectors along a parallel loop
const MicroKernel& horizontalKernel();  ///< sums along the vectors
// product_kernels.cpp
const MicroKernel& outerProductKernel();  ///< one operand broadcast, one loaded as vectors
const MicroKernel& slidingKernel();       ///< a window that slides along the tile
const MicroKernel& dotKernel();           ///< products along the vectors
// tile_kernel.cpp
const MicroKernel& tileKernel();  ///< products of whole tiles by one instruction
// transform_kernel.cpp
const MicroKernel& transformKernel();  ///< multiplies by two small constant matrices, one from each side (Winograd)
// pack_kernel.cpp
const MicroKernel& packKernel();  ///< copies an operand to panels

}  // namespace tessera::compiler::codegen
