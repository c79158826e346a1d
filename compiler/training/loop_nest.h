#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler::training {

/// A new operation over the loops of another one, in an order with its own result dimensions first.
struct LoopNest {
  std::vector<int64_t> extents;                    ///< of the original's loops, then of further ones
  std::vector<unsigned> result_loops;              ///< loops of the result's dimensions; the others are summed
  std::vector<mlir::Value> tensors;                ///< operands
  std::vector<mlir::AffineMap> maps;               ///< of each operand, in the original's loops
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;  ///< of the result
  /// Emits an element. `loop` returns the index of one of the original's loops, `arguments` are the operands' elements.
  using Loop = std::function<mlir::Value(unsigned loop)>;
  std::function<absl::StatusOr<mlir::Value>(mlir::OpBuilder& b, mlir::ValueRange arguments, const Loop& loop)> body;
};

/// Emits the nest, without the operands that its body does not use.
absl::StatusOr<mlir::Value> emitNest(Emitter& e, const LoopNest& nest);

/// Copies the operations of a body except its terminator. `forward` maps its arguments and receives the copies.
void cloneBody(mlir::OpBuilder& b, mlir::Block& body, const LoopNest::Loop& loop, mlir::IRMapping& forward);

}  // namespace tessera::compiler::training
