#pragma once

#include <vector>

#include "compiler/intrinsic/price.h"

namespace tessera::compiler::intrinsic {

/// A mapping with the sizes that the model likes best for it.
struct Choice {
  v1::Intrinsic intrinsic;
  Nest software;  ///< with the loops that stand in
  Matching matching;
  PhysicalMapping mapping;
  Tiling tiling;
  Price price;
};

/// The tiling of least price that doubling, from one block a level on, leads to; ties keep the earlier. Fails where
/// not even single blocks fit.
absl::StatusOr<Choice> tiled(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                             const v1::Target& target);

/// Least price first; of equals, the earlier.
void sortByPrice(std::vector<Choice>& choices);

}  // namespace tessera::compiler::intrinsic
