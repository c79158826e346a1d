#pragma once

#include <optional>

#include "compiler/backends/cpu/region/region_slices.h"

/// A softmax between two products, found among nests by its structure: maximum of a row, exp(x - maximum), sum of the
/// row, and the division that deferDivisions has moved after the product.
namespace tessera::compiler::codegen {

/// Positions of the parts of softmax(S) V in the list.
struct SoftmaxParts {
  size_t maximum = 0, powers = 0, sum = 0, product = 0;
  int key = -1;  ///< the loop over columns of S in `product`
};

/// The softmax that the last product of `nests` reads, with its division deferred; nothing if there is none.
std::optional<SoftmaxParts> findSoftmax(const SlicedNests& nests);
/// The same for the product at `position`.
std::optional<SoftmaxParts> softmaxReadBy(const SlicedNests& nests, size_t position);

/// Whether a statement of `nest` reads `root` from memory, or writes it.
bool reads(const Nest& nest, mlir::Value root);
bool writes(const Nest& nest, mlir::Value root);
/// Whether the nest is one statement with one output and `inputs` operands in memory.
bool isSimple(const Nest& nest, size_t inputs);
bool sameWalk(const Access& a, const Access& b);

}  // namespace tessera::compiler::codegen
