#pragma once

#include <optional>

#include "compiler/import/constant.h"
#include "mlir/IR/Block.h"

namespace tessera::compiler {

/// Runs a block of linalg, tensor, arith, math and scf.for operations whose leaves are constants, one scalar
/// operation at a time with MLIR's own folders, and returns the values of `results` in order.
///
/// This is how nodes fold at import: whatever an operator's lowering emits, is evaluated, so no operator
/// needs a second, constant implementation. Nothing when an operation has no folder, an index is out of
/// range, or `steps` (decremented; scalar operations left) runs out.
std::optional<std::vector<ConstantPtr>> evaluate(mlir::Block& block, llvm::ArrayRef<mlir::Value> results,
                                                 llvm::ArrayRef<v1::DataType> types, int64_t& steps);

}  // namespace tessera::compiler
