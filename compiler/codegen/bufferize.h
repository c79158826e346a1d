#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler::codegen {

/// The dialects, interfaces and translations a workload may need; nothing else is loaded.
void registerCodegenDialects(mlir::DialectRegistry& registry);

/// Parses a workload: a module with one func.func over tensors of static shape.
/// Errors: INTERNAL with the parser's message; the function's location when a shape is dynamic.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> parseWorkload(mlir::MLIRContext& context, const std::string& ir);

/// Passes of the steps below. Their patterns take longer to make than to apply: those of one manager serve all
/// functions.
struct CleanUp : mlir::PassManager {
  explicit CleanUp(mlir::MLIRContext& context);
};

/// Brings tensor operations to the few forms the later steps know: linalg.generic, linalg.fill, slices and
/// reshapes. pack, unpack, pad and concat become writes into slices of their results.
absl::Status normalizeTensors(mlir::func::FuncOp func, CleanUp& clean_up);
absl::Status normalizeTensors(mlir::func::FuncOp func);

/// Turns the function into one on memrefs: arguments first, then one more argument per result, which the
/// producers write in place wherever the analysis allows it. Temporaries are memref.alloc.
absl::Status bufferizeWorkload(mlir::func::FuncOp func, CleanUp& clean_up);
absl::Status bufferizeWorkload(mlir::func::FuncOp func);

}  // namespace tessera::compiler::codegen
