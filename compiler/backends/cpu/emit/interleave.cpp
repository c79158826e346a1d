#include "compiler/backends/cpu/emit/interleave.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::compiler::codegen {
namespace {

/// Whether the operation may be reordered among its neighbours as long as its operands precede it.
bool moves(mlir::Operation& op) {
  return op.getNumRegions() == 0 && !op.hasTrait<mlir::OpTrait::IsTerminator>() &&
         (mlir::isMemoryEffectFree(&op) || llvm::isa<mlir::LLVM::LoadOp, mlir::LLVM::MaskedLoadOp>(op));
}

/// Orders [first, last] of one block by depth; operations of equal depth keep their order.
void orderByDepth(llvm::ArrayRef<mlir::Operation*> run) {
  llvm::DenseMap<mlir::Operation*, int> depth;
  llvm::SmallVector<llvm::SmallVector<mlir::Operation*>> levels;
  for (mlir::Operation* op : run) {
    int mine = 0;
    for (mlir::Value operand : op->getOperands())
      if (auto found = depth.find(operand.getDefiningOp()); found != depth.end())
        mine = std::max(mine, found->second + 1);
    depth[op] = mine;
    if (static_cast<int>(levels.size()) <= mine) levels.resize(mine + 1);
    levels[mine].push_back(op);
  }
  mlir::Operation* end = run.back()->getNextNode();
  for (const auto& level : levels)
    for (mlir::Operation* op : level) op->moveBefore(end);
}

}  // namespace

void interleavePoints(mlir::ModuleOp module) {
  module.walk([](mlir::Operation* around) {
    if (!around->removeAttr(kInterleaved)) return;
    for (mlir::Region& region : around->getRegions())
      for (mlir::Block& block : region) {
        // An operation that must stay where it is ends a run; only operations within a run change their order.
        llvm::SmallVector<llvm::SmallVector<mlir::Operation*>> runs(1);
        for (mlir::Operation& op : block) {
          if (moves(op)) {
            runs.back().push_back(&op);
          } else if (!runs.back().empty()) {
            runs.emplace_back();
          }
        }
        for (const auto& run : runs)
          if (run.size() > 1) orderByDepth(run);
      }
  });
}

}  // namespace tessera::compiler::codegen
