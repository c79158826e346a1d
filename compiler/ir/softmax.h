#pragma once

#include <optional>

#include "mlir/IR/Block.h"

/// What a softmax over rows is made of, whatever walks the rows: linalg operations of the graph, nests of code
/// generation. Arguments of bodies are the operands in order, then what has been made so far.
namespace tessera::compiler {

using SoftmaxBody = bool (*)(mlir::Block& body);

/// exp(a0 - a1).
bool isPowerBody(mlir::Block& body);
/// a0 / a1.
bool isQuotientBody(mlir::Block& body);
/// The sum, or the larger one, of a0 and what there is so far, a1.
bool isSumBody(mlir::Block& body);
bool isMaximumBody(mlir::Block& body);

/// Whoever makes the steps behind a quotient: maximum of a row, exp(x - maximum), sum of the row.
template <typename Node>
struct SoftmaxSteps {
  Node maximum, powers, sum;
};

/// The steps whose last one makes `sum`; none where it is no sum of a softmax. `walk` knows who makes a value:
///
///   Value, Node             a tensor or buffer, and what makes one
///   optional<Node> reduces(Value, SoftmaxBody)   its maker, when that reduces one operand along one loop by such a
///   body optional<Node> maps(Value, SoftmaxBody)      its maker, when that has two operands, no sum, and such a body
///   Value operand(Node, int)
///   bool sameRows(Node, Node)                    two reductions over the same loops in the same order
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
