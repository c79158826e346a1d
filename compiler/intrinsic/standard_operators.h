#pragma once

#include <string>
#include <vector>

#include "compiler/intrinsic/nest.h"

namespace tessera::compiler::intrinsic {

/// An operator of the thesis's evaluation (5.7.1): its definition, and how many mappings table 5.3 counts for it on
/// Tensor Core.
struct StandardOperator {
  const char* name;
  const char* what;
  const char* definition;  ///< parseNest's
  std::vector<int64_t> extents;
  size_t thesis_count;
};

/// In the order of table 5.3. Extents are of layers of networks, batch 16; mappings do not depend on them.
/// Convolutions read a padded image, so that subscripts are affine; strides and dilations are coefficients.
const std::vector<StandardOperator>& standardOperators();

/// The operator of that name as a nest, or null.
const StandardOperator* findStandardOperator(const std::string& name);
Nest nestOf(const StandardOperator& standard);

/// What the thesis (5.7.4) counts for C3D on an instruction of its virtual accelerators; 0 for others.
size_t thesisCountOfC3D(const std::string& instruction);

}  // namespace tessera::compiler::intrinsic
