#include "compiler/backends/cpu/in_place_results.h"

#include "compiler/ir/workload.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler::codegen {

namespace {

/// The workload whose argument `root` is; null if it is no argument.
mlir::func::FuncOp workloadOf(mlir::Value root) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(root);
  return argument ? llvm::dyn_cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp()) : mlir::func::FuncOp();
}

}  // namespace

mlir::Value overwrittenArgument(mlir::Value root) {
  mlir::func::FuncOp func = workloadOf(root);
  if (!func) return nullptr;
  const unsigned number = llvm::cast<mlir::BlockArgument>(root).getArgNumber();
  auto over = func.getArgAttrOfType<mlir::IntegerAttr>(number, kMayAlias);
  return over ? func.getArgument(static_cast<unsigned>(over.getInt())) : nullptr;
}

mlir::Value resultOverwriting(mlir::Value root) {
  mlir::func::FuncOp func = workloadOf(root);
  if (!func) return nullptr;
  for (mlir::BlockArgument argument : func.getArguments())
    if (overwrittenArgument(argument) == root) return argument;
  return nullptr;
}

bool mayOverwriteInput(const Nest& nest) {
  return llvm::any_of(nest.statements, [](const Statement& statement) {
    return llvm::any_of(statement.outputs,
                        [](const Operand& output) { return overwrittenArgument(output.access.root) != nullptr; });
  });
}

}  // namespace tessera::compiler::codegen
