#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"

/// Evaluates tensor expressions element by element, with derivatives in one direction (forward mode).
namespace tessera::compiler::gradient::testing {

/// value + tangent * e with e * e = 0.
struct Dual {
  double value = 0, tangent = 0;
};

struct DualTensor {
  std::vector<int64_t> shape = {};
  std::vector<Dual> elements = {};
};
using DualTensors = std::map<std::string, DualTensor>;

/// All tensors of the program, given its inputs. Values are doubles: integers below 2^53 are exact. Fails like an
/// import does, and where a read that happens is outside its tensor.
absl::StatusOr<DualTensors> evaluateProgram(const expression::Program& program, DualTensors inputs);

/// Shapes of the inputs whose extents are constants.
absl::StatusOr<std::map<std::string, std::vector<int64_t>>> inputShapes(const expression::Program& program);

}  // namespace tessera::compiler::gradient::testing
