#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler::codegen {

/// Registers the dialects, interfaces and translations that a workload may need, and no others.
void registerCodegenDialects(mlir::DialectRegistry& registry);

/// Parses a workload: a module with one func.func over tensors of static shape. Errors: INTERNAL with the parser's
/// message, or with the function's location when a shape is dynamic.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> parseWorkload(mlir::MLIRContext& context, const std::string& ir);

/// The passes of the steps below. Building their patterns takes longer than applying them, so one manager serves all
/// functions.
struct CleanupPasses : mlir::PassManager {
  explicit CleanupPasses(mlir::MLIRContext& context);
};

/// Reduces tensor operations to the few forms that the later steps know: linalg.generic, linalg.fill, slices and
/// reshapes. pack, unpack, pad and concat become writes into slices of their results.
absl::Status normalizeTensors(mlir::func::FuncOp func, CleanupPasses& clean_up);
absl::Status normalizeTensors(mlir::func::FuncOp func);

/// Converts the function to memrefs: its arguments first, then one more argument per result. Producers write results in
/// place wherever the analysis allows it. Temporaries are memref.alloc.
absl::Status bufferizeWorkload(mlir::func::FuncOp func, CleanupPasses& clean_up);
absl::Status bufferizeWorkload(mlir::func::FuncOp func);

}  // namespace tessera::compiler::codegen
