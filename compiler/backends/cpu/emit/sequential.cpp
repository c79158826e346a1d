#include "compiler/backends/cpu/emit/sequential.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler::codegen {
namespace {

using mlir::Value;

/// Whether `value`, defined outside of a nest, can be recomputed: constants, views and pure operations on them.
bool repeatable(Value value) {
  mlir::Operation* op = value.getDefiningOp();
  if (!op) return true;
  if (llvm::isa<mlir::memref::AllocOp, mlir::memref::GetGlobalOp>(op)) return true;
  return mlir::isPure(op) && llvm::all_of(op->getOperands(), repeatable);
}

}  // namespace

// A phase may use values that can be computed again within it (constants, sizes, views) and those of its own loops. Any
// other value passes from phase to phase outside of memory.
bool phasesShareValues(const PhaseList& list) {
  for (const Phase& phase : list.phases) {
    llvm::SetVector<mlir::Operation*> own(phase.loops.begin(), phase.loops.end());
    auto fine = [&](Value value) { return repeatable(value) || own.contains(value.getDefiningOp()); };
    for (mlir::Operation* op : phase.loops) {
      llvm::SetVector<Value> captured(op->operand_begin(), op->operand_end());
      for (mlir::Region& region : op->getRegions()) mlir::getUsedValuesDefinedAbove(region, captured);
      if (!llvm::all_of(captured, fine)) return true;
    }
    for (const Nest& nest : phase.nests)
      for (const Statement& statement : nest.statements) {
        llvm::SetVector<Value> captured;
        mlir::getUsedValuesDefinedAbove(statement.op->getRegions(), captured);
        for (const Operand& input : statement.inputs)
          if (input.scalar) captured.insert(input.scalar);
        for (Value init : statement.init)
          if (init) captured.insert(init);
        if (!llvm::all_of(captured, repeatable)) return true;
      }
  }
  return false;
}

PhaseList mergeIntoOnePhase(mlir::func::FuncOp func) {
  PhaseList list;
  Phase& phase = list.phases.emplace_back();
  // Views and arithmetic belong to the phase too, since they may depend on a value that was just loaded.
  for (mlir::Operation& op : func.getBody().front().without_terminator())
    if (!llvm::isa<mlir::memref::AllocOp, mlir::memref::GetGlobalOp, mlir::memref::DeallocOp>(op))
      phase.loops.push_back(&op);
  return list;
}

}  // namespace tessera::compiler::codegen
