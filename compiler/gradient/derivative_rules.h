#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"

/// Partial derivatives of the operators and functions of tensor expressions.
namespace tessera::compiler::gradient {

/// Texts in the language of the expressions: `a` and `b` are the operands, `y` is the value. "1" and "-1" add no
/// factor, "1 / x" divides, "0" ends the path.
struct DerivativeRule {
  std::string_view function;
  std::string_view of_first = "0", of_second = "0";
};

std::span<const DerivativeRule> derivativeRules();

/// The derivative of `call` by its operand `position`, as an expression of the call's operands. `value` is an
/// expression of the call's value. Fails with INVALID_MODEL at the place of a function without a rule.
absl::StatusOr<expression::NodePtr> partialOf(const expression::Node& call, size_t position,
                                              const expression::Node& value);

}  // namespace tessera::compiler::gradient
