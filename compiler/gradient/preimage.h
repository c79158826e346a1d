#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gradient/index_space.h"

/// The iterations of a statement that read a given element: equations 4.8 and 4.9 of the thesis.
namespace tessera::compiler::gradient {

/// low <= sum <= high.
struct IndexBound {
  IndexSum sum;
  int64_t low = 0, high = 0;
};

/// sum = value: one subscript of a read and the index of the element.
struct IndexEquation {
  IndexSum sum;    ///< over the statement's loops and quotients
  IndexSum value;  ///< over the gradient's loops
};

/// All iterations that read an element, each once.
struct Preimage {
  std::vector<int> free_loops = {};     ///< atoms of the gradient's space: the new reductions
  std::vector<IndexSum> atoms = {};     ///< each loop and quotient of the statement over the gradient's space
  std::vector<IndexBound> guards = {};  ///< an iteration exists where all hold
  bool empty = false;                   ///< no element is read
};

/// Solves the equations for the loops and quotients of `statement`. Each quotient x / d of the statement is an unknown
/// of its own with 0 <= x - d * (x / d) < d; so x is determined where both quotient and remainder are, and otherwise
/// the one that is not becomes a free loop. `bounds` limits the iterations further. Free loops are added to `gradient`,
/// each starting at 0, with the fewest iterations that the bounds allow (range analysis).
absl::StatusOr<Preimage> preimageOf(const IndexSpace& statement, const std::vector<IndexEquation>& equations,
                                    std::vector<IndexBound> bounds, IndexSpace& gradient);

}  // namespace tessera::compiler::gradient
