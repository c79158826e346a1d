#pragma once

#include "compiler/backends/cpu/tiling/contraction_roles.h"

namespace tessera::compiler::codegen {

/// Constraints that a kernel puts on the register tiles of its products.
struct TileConstraints {
  /// registers for operands that stay loaded from step to step, in addition to those of other products
  int64_t operand_registers = 0;
  bool single_row_loop = false;  ///< tiles are one vector wide and cover consecutive iterations of one row loop only
};

/// The cost of a register tile in one nest. A tile has `rows` x `vectors` accumulators. Its vectors form `columns`
/// groups; each group is contiguous in memory and is one address stream.
class ProductCosts {
 public:
  ProductCosts(const Nest& nest, const Chip& chip, const Roles& roles, const TileConstraints& constraints, int lanes);
  /// Registers that a tile needs.
  int64_t registers(int64_t rows, int64_t vectors, int64_t columns) const;
  /// Cycles of one step of the sum, including its share of the cost of the results.
  double step(int64_t rows, int64_t vectors) const;

  bool copiesBlocks() const { return copies_; }  ///< see needsBlockCopies
  /// Whether the nest is a depthwise convolution over planes with a short window. It has a single row and few steps,
  /// whose vectors overlap those of the next step and are therefore in L1. Only neighbouring columns give it
  /// independent sums that hide the latency of a multiply-add.
  bool isPlaneWindow() const { return window_; }

 private:
  double products(int64_t rows, int64_t vectors) const;

  const Chip& chip_;
  TileConstraints constraints_;
  bool broadcasts_, copies_, window_;
  const ProductInstructionStep* step_;
  int64_t rows_, depth_, panel_depth_, vector_bytes_;
  int lanes_;
  const Chip::Level& beyond_;
};

/// Chooses register tile and loop order of a product whose vectors run along a parallel loop.
void planContraction(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                     const TileConstraints& constraints, TilePlan& plan);

/// Whether no operand is broadcast along the vector and neighbouring rows share loads, as in a depthwise convolution
/// with a short window.
bool slides(const Nest& nest, const Chip& chip, const Roles& roles);

/// Reduces the unrolling of the reductions if the rows of a tile share elements across unrolled steps, as overlapping
/// windows do, and the distinct elements do not fit in the registers left over. LLVM would load each shared element
/// once, broadcast it, and spill it as a whole vector.
void reduceOverlappingUnroll(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Chooses packing, blocks, prefetches and levels. Call after the reductions are ordered and unrolled.
void planMemory(const Nest& nest, const Chip& chip, const PlanConstraints& wanted, TilePlan& plan);

/// Chooses the loop order of the panels, and the row distance of each `strided_copy`: an odd number of cache lines.
void orderPanels(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Whether input `input` can be copied to panels: each element must be accessed at a single point of its loops.
bool canPack(const Nest& nest, int input);

/// The output in which a blocked reduction keeps its partial sums: it is in memory, has the accumulators' element type,
/// is not read by the nest, and does not overwrite an input. Nothing if there is none.
std::optional<RegisterRef> partialSums(const Nest& nest);

}  // namespace tessera::compiler::codegen
