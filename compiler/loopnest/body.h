#pragma once

#include <span>
#include <string_view>

#include "compiler/loopnest/nest.h"

/// The operations that a body may consist of.
namespace tessera::compiler::loopnest {

struct OperationKind {
  std::string_view name;
  size_t operands = 0;
  std::string_view symbol;  ///< "+" of "add"; empty: written as a call of the name
};

/// All kinds: "constant"; "neg", "add", "sub", "mul", "div"; "max", "min", "pow"; "exp", "log", "sqrt", "tanh", "erf",
/// "abs", "floor", "ceil".
std::span<const OperationKind> operationKinds();

/// The kind of that name, or null.
const OperationKind* operationKind(std::string_view name);

/// The product of `inputs` values, in their order; nothing for one value.
std::vector<Operation> productOf(size_t inputs);

/// Whether the body multiplies all inputs, each once.
bool isProduct(const Statement& statement);

}  // namespace tessera::compiler::loopnest
