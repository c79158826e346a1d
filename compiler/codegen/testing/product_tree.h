#pragma once

#include <utility>

#include "tessera/v1/schedule.pb.h"

/// Trees of products, read and written by hand.
namespace tessera::compiler::codegen::testing {

/// The leaf of the first product of the tree. Fails the test where there is none.
const v1::Tile& productLeaf(const v1::Schedule& schedule);
v1::Tile& productLeaf(v1::Schedule& schedule);

/// Rows and vectors of its register tile.
std::pair<int, int> registerTile(const v1::Tile& leaf);

/// Stages of the leaf that lie in panels.
int packedOperands(const v1::Tile& leaf);

/// C[batch, m, n] = A[batch, m, k] B[batch, k, n], vectors along n.
struct ProductTree {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  int64_t rows = 1, vectors = 1;
  int64_t block_m = 0, block_n = 0, block_k = 0;  ///< rounded to tiles; 0, or all of it: none
  int64_t far_m = 0, far_n = 0, far_k = 0;        ///< blocks around these, rounded to them
  bool pack_a = false, pack_b = false;            ///< before the product
  bool copy_a = false;                            ///< block by block instead
  bool copy_far = false;                          ///< those of far blocks, instead of their parts
};

/// Puts `product` in the place of the tree's product, copies of its operands included.
void replaceProduct(v1::Schedule& schedule, const ProductTree& product);

}  // namespace tessera::compiler::codegen::testing
