#pragma once

#include "compiler/codegen/nest.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// What the machine offers to one nest.
struct Machine {
  int vector_bits = 128;
  int vector_registers = 16;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  bool has_fma = false;
};

/// Loop-level decisions for one nest.
struct TilePlan {
  int lanes = 1;                      ///< elements of one vector; 1 = scalar code
  int vector_loop = -1;               ///< the loop whose neighbours share a vector; -1 with lanes = 1
  bool horizontal = false;            ///< vector_loop is a reduction: lanes are combined at the end
  llvm::SmallVector<int64_t> tile;    ///< per loop: iterations emitted without a loop
  llvm::SmallVector<int> order;       ///< parallel loops, outermost first
  llvm::SmallVector<int> points;      ///< parallel loops as the tile's accumulators are visited, slowest first
  llvm::SmallVector<int> reductions;  ///< reduction loops, outermost first
  int grid_loops = 0;                 ///< the first so many of `order` form the grid
  std::string strategy;               ///< "contraction", "reduction", "elementwise", "scalar-loops"
  int rows = 1, vectors = 1;          ///< accumulators of the register tile: rows x vectors
};

/// Chooses vector loop, register tile, loop order and grid from the access functions. `wanted` overrides what
/// it states: register_tile (rows, vectors), unroll_reduction, parallel_loops.
TilePlan planTile(const Nest& nest, const Machine& machine, const v1::Schedule& wanted);

/// Whether the nest multiplies and accumulates two operands.
bool isContraction(const Nest& nest);

/// Number of grid points of `nest` under `plan`.
int64_t gridOf(const Nest& nest, const TilePlan& plan);

}  // namespace tessera::compiler::codegen
