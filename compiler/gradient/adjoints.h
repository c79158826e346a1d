#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"

/// Reverse mode within one statement: which reads its value depends on, and by which factors.
namespace tessera::compiler::gradient {

/// Element types of tensors, by name. Params are in it, too, without a type.
using Types = std::map<std::string, v1::DataType>;

/// A factor of a product, or a divisor.
struct Factor {
  expression::NodePtr node;
  bool divides = false;
};

/// The product of the factors where all conditions hold, otherwise 0.
struct Adjoint {
  std::vector<Factor> factors = {};
  std::vector<expression::NodePtr> conditions = {};
  bool negative = false;

  Adjoint copy() const;
  /// Multiplies by a partial derivative. 1 and -1 add no factor; 1 / x adds a divisor. False if it is 0.
  bool multiply(expression::NodePtr partial);
  /// The product, without the conditions.
  expression::NodePtr product() const;
};

/// One read of a tensor, and what it contributes to the gradient of the element that it reads.
struct ReadAdjoint {
  const expression::Node* read = nullptr;
  Adjoint adjoint;
};

struct AdjointQuestion {
  const expression::Statement& statement;
  const Types& types;                   ///< of all tensors
  const std::set<std::string>& wanted;  ///< tensors whose gradients are of interest
};

/// The type of an expression's value; UNSPECIFIED for literals.
v1::DataType typeOf(const expression::Node& node, const Types& types);

/// Whether one of the tensors is read where it influences the value: not in a condition.
bool dependsOn(const expression::Node& node, const std::set<std::string>& tensors);

/// The reads of wanted tensors in the statement's value, given the value's own adjoint. Fails with INVALID_MODEL at the
/// place of a function or cast without a derivative.
absl::StatusOr<std::vector<ReadAdjoint>> adjointsOf(const AdjointQuestion& question, const Adjoint& seed);

}  // namespace tessera::compiler::gradient
