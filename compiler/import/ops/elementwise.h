#pragma once

#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "proto/support/status_macros.h"

/// Lowerings shared by the tables of elementwise operators. `kBody` is a captureless Emitter::Body.
namespace tessera::compiler {

template <auto kBody>
Results unary(Node& n, Emitter& e) {
  return {{e.elementwise(n.in(0).dtype, {n.in(0)}, kBody)}};
}

/// Returns the operands of a binary operator, checked to broadcast. Before version 7 the second operand was aligned at
/// the attribute `axis` instead of the last dimension.
absl::StatusOr<std::vector<Tensor>> binaryOperands(Node& n, Emitter& e);

template <auto kBody>
Results binary(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(auto operands, binaryOperands(n, e));
  return {{e.elementwise(operands[0].dtype, operands, kBody)}};
}

template <auto kBody>
Results predicate(Node& n, Emitter& e) {
  TESSERA_ASSIGN_OR_RETURN(auto operands, binaryOperands(n, e));
  return {{e.elementwise(v1::DATA_TYPE_BOOL, operands, kBody)}};
}

}  // namespace tessera::compiler
