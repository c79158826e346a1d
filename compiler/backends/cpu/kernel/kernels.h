#pragma once

#include "compiler/backends/cpu/tiling/micro_kernel.h"

/// The micro-kernels, each in the file of its family; registry.cpp lists them.
namespace tessera::compiler::codegen {

// simple_kernels.cpp
const MicroKernel& scalarKernel();       ///< plain loops, one point at a time
const MicroKernel& elementwiseKernel();  ///< no sum
/// without a sum; operands that are strided along the vector loop are transposed in registers, a square at a time
const MicroKernel& transposedKernel();
const MicroKernel& reductionKernel();   ///< sums, vectors along a parallel loop
const MicroKernel& horizontalKernel();  ///< sums, vectors along the reduction loop
// product_kernels.cpp
const MicroKernel& outerProductKernel();  ///< one operand broadcast, one loaded as vectors
const MicroKernel&
slidingKernel();  ///< a convolution window slides along the points of the tile, which share loaded vectors
const MicroKernel& dotKernel();  ///< dot products: vectors run along the reduction
// tile_kernel.cpp
const MicroKernel& tileKernel();  ///< products of two-dimensional tiles by one instruction (AMX)
// transform_kernel.cpp
const MicroKernel& transformKernel();  ///< multiplies by two small constant matrices, one from each side (Winograd)
// pack_kernel.cpp
const MicroKernel& packKernel();  ///< copies an operand to panels

}  // namespace tessera::compiler::codegen
