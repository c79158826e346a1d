#pragma once

#include <utility>

#include "tessera/v1/schedule.pb.h"

/// Tile trees of products, inspected and written by hand.
namespace tessera::compiler::codegen::testing {

/// The leaf of the first product of the tree. Fails the test if there is none.
const v1::Tile& productLeaf(const v1::Schedule& schedule);
v1::Tile& productLeaf(v1::Schedule& schedule);

/// Rows and vectors of its register tile.
std::pair<int, int> registerTile(const v1::Tile& leaf);

/// Number of the leaf's stages that are panels.
int packedOperands(const v1::Tile& leaf);

/// C[batch, m, n] = A[batch, m, k] B[batch, k, n], vectors along n.
struct ProductTree {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t rows = 1, vectors = 1;
  int64_t block_m = 0, block_n = 0, block_k = 0;  ///< rounded to tiles; 0 or the whole extent: no blocks
  int64_t far_m = 0, far_n = 0, far_k = 0;        ///< outer blocks around these, rounded to multiples of them
  bool pack_a = false, pack_b = false;            ///< packs before the product
  bool copy_a = false;                            ///< packs A block by block instead
  bool copy_far = false;                          ///< copies far blocks instead of their parts
};

/// Replaces the tree's product by `product`, including the copies of its operands.
void replaceProduct(v1::Schedule& schedule, const ProductTree& product);

}  // namespace tessera::compiler::codegen::testing
