#pragma once

#include "compiler/codegen/tiling/contraction_roles.h"

namespace tessera::compiler::codegen {

/// What a kernel asks of the register tiles of its products.
struct TileDemands {
  int64_t kept = 0;   ///< registers beside the sums, a column of vectors and a broadcast element
  bool line = false;  ///< a tile is neighbours along one loop of rows, one vector wide
};

/// What a register tile costs in one nest: `columns` of its `vectors` are streams of their own.
class ProductCosts {
 public:
  ProductCosts(const Nest& nest, const Chip& chip, const Roles& roles, const TileDemands& demands, int lanes);
  /// Registers that a tile takes.
  int64_t registers(int64_t rows, int64_t vectors, int64_t columns) const;
  /// Cycles of one step of the sum, its share of what the results cost included.
  double step(int64_t rows, int64_t vectors) const;

  bool copies() const { return copies_; }  ///< see copiesBlocks
  /// A depthwise window over planes: few steps, whose vectors overlap those of the next and are near therefore, and
  /// nothing but neighbouring lines to hide the latency of a sum behind.
  bool window() const { return window_; }

 private:
  double products(int64_t rows, int64_t vectors) const;

  const Chip& chip_;
  TileDemands demands_;
  bool broadcasts_, copies_, window_;
  const ProductStep* step_;
  int64_t rows_, depth_, panel_depth_, vector_bytes_;
  int lanes_;
  const Chip::Level& beyond_;
};

/// Register tile and loop order of a product whose vectors run along a loop that stays.
void planContraction(const Nest& nest, const Chip& chip, const Wanted& wanted, const TileDemands& demands,
                     TilePlan& plan);

/// Whether no operand is broadcast along the vector and neighbouring rows share what they read, as in a depthwise
/// convolution with a short window.
bool slides(const Nest& nest, const Chip& chip, const Roles& roles);

/// Unrolls the reductions less far where rows of a tile would read what others read at another unrolled step, as
/// windows do that overlap, and that does not stay in registers: LLVM loads it once and keeps it in memory as whole
/// vectors.
void separateSteps(const Nest& nest, const Chip& chip, TilePlan& plan);

/// After the reductions are ordered and unrolled: what is packed, what is blocked, what is fetched, the levels.
void planMemory(const Nest& nest, const Chip& chip, const Wanted& wanted, TilePlan& plan);

/// Loops of the panels of what is packed, and the distance of rows that lie apart: an odd number of cache lines.
void orderPanels(const Nest& nest, const Chip& chip, TilePlan& plan);

/// Whether input `input` can be copied to panels: each element is walked at one point of its loops only.
bool canPack(const Nest& nest, int input);

/// Where a blocked reduction keeps its partial sums: an output in memory with the accumulators' element type that
/// nothing in the nest reads, and that is not written over what it reads. Nothing when there is none.
std::optional<RegisterRef> partialSums(const Nest& nest);

}  // namespace tessera::compiler::codegen
