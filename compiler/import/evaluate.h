#pragma once

#include <optional>

#include "compiler/import/constant.h"
#include "mlir/IR/Block.h"

namespace tessera::compiler {

/// Evaluates a block of linalg, tensor, arith, math and scf.for operations whose leaves are constants, one scalar
/// operation at a time with MLIR's folders. Returns the values of `results` in order.
///
/// Nodes fold at import in this way: the evaluator runs the operations that the lowering emitted, so no operator needs
/// a second implementation for constants. Returns nothing if an operation has no folder, an index is out of range, or
/// the budget of scalar operations `steps` runs out. Subtracts the operations used from `steps`.
std::optional<std::vector<ConstantPtr>> evaluate(mlir::Block& block, llvm::ArrayRef<mlir::Value> results,
                                                 llvm::ArrayRef<v1::DataType> types, int64_t& steps);

}  // namespace tessera::compiler
