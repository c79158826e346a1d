#pragma once

#include <optional>

#include "mlir/IR/Block.h"

/// Recognizes the steps of a softmax over rows, in linalg operations of the graph and in nests of code generation. The
/// arguments of a body are the operands in order, then the accumulator.
namespace tessera::compiler {

using SoftmaxBody = bool (*)(mlir::Block& body);

/// exp(a0 - a1).
bool isPowerBody(mlir::Block& body);
/// a0 / a1.
bool isQuotientBody(mlir::Block& body);
/// The sum, or the maximum, of a0 and the accumulator a1.
bool isSumBody(mlir::Block& body);
bool isMaximumBody(mlir::Block& body);

/// The producers of a quotient's operands: maximum of a row, exp(x - maximum), sum of the row.
template <typename Node>
struct SoftmaxSteps {
  Node maximum, powers, sum;
};

/// Finds the softmax steps that end in `sum`; nothing if `sum` is not the sum of a softmax. `walk` finds producers:
///
///   Value, Node                                 a tensor or buffer, and its producer
///   optional<Node> reduces(Value, SoftmaxBody)  the producer, if it reduces one operand along one loop by such a body
///   optional<Node> maps(Value, SoftmaxBody)     the producer, if it has two operands, no reduction, and such a body
///   Value operand(Node, int)
///   bool sameRows(Node, Node)                   whether two reductions have the same loops in the same order
template <typename Walk>
std::optional<SoftmaxSteps<typename Walk::Node>> findSoftmaxSteps(const Walk& walk, const typename Walk::Value& sum) {
  const auto total = walk.reduces(sum, isSumBody);
  if (!total) return std::nullopt;
  const auto powers = walk.maps(walk.operand(*total, 0), isPowerBody);
  if (!powers) return std::nullopt;
  const auto maximum = walk.reduces(walk.operand(*powers, 1), isMaximumBody);
  if (!maximum || walk.operand(*maximum, 0) != walk.operand(*powers, 0) || !walk.sameRows(*maximum, *total))
    return std::nullopt;
  return SoftmaxSteps<typename Walk::Node>{*maximum, *powers, *total};
}

}  // namespace tessera::compiler
