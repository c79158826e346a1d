#pragma once

#include <vector>

#include "compiler/intrinsic/mapping_cost.h"

namespace tessera::compiler::intrinsic {

/// A mapping with the tiling of the lowest predicted cost.
struct Choice {
  v1::Intrinsic intrinsic;
  Nest software;  ///< including the loops of extent 1 that the mapping needs (Mappings::software)
  Matching matching;
  PhysicalMapping mapping;
  Tiling tiling;
  Price price;
};

/// Finds a tiling by repeated doubling, starting with one block per level and taking the step of the lowest cost; ties
/// keep the earlier one. Fails if not even single blocks fit.
absl::StatusOr<Choice> tiled(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                             const v1::Target& target);

/// Lowest cost first; stable.
void sortByCost(std::vector<Choice>& choices);

}  // namespace tessera::compiler::intrinsic
