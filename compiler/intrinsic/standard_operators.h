#pragma once

#include <string>
#include <vector>

#include "compiler/intrinsic/nest.h"

namespace tessera::compiler::intrinsic {

/// An operator of the thesis's evaluation (5.7.1): its definition, and its number of mappings to Tensor Core in table
/// 5.3.
struct StandardOperator {
  const char* name;
  const char* what;
  const char* definition;  ///< in the syntax of loopnest::parse()
  std::vector<int64_t> extents;
  size_t thesis_count;
};

/// In the order of table 5.3. Extents are those of layers of networks with batch 16; mappings do not depend on them.
/// Convolutions read a padded image, so that subscripts are affine; strides and dilations are coefficients.
const std::vector<StandardOperator>& standardOperators();

/// The operator of this name, or null; and its nest.
const StandardOperator* findStandardOperator(const std::string& name);
Nest nestOf(const StandardOperator& standard);

/// The number of mappings of C3D that the thesis (5.7.4) gives for an instruction of its virtual accelerators; 0 for
/// others.
size_t thesisCountOfC3D(const std::string& instruction);

}  // namespace tessera::compiler::intrinsic
