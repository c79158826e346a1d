#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gradient/adjoints.h"
#include "compiler/import/expression/bounds.h"

namespace tessera::compiler::gradient {

/// A program whose tensors have known shapes, loops and types, with reductions in a form that can be differentiated:
/// the value of a product, maximum or minimum is the read of one tensor.
struct ForwardProgram {
  std::vector<expression::Param> params = {};
  std::vector<std::string> inputs = {}, outputs = {}, wanted_inputs = {};
  std::vector<expression::Statement> statements = {};
  expression::Constants constants = {};
  expression::Shapes shapes = {};
  Types types = {};
  std::map<std::string, std::vector<expression::Loop>> loops = {};  ///< of each statement, by its result
  std::set<std::string> differentiated = {};  ///< tensors that depend on a wanted input, and these inputs
};

/// Fails with INVALID_MODEL at the place of an error, of an integer output and of a wanted input that has no gradient.
absl::StatusOr<ForwardProgram> forwardProgram(const expression::Program& program,
                                              const std::vector<std::string>& wanted_inputs);

}  // namespace tessera::compiler::gradient
