#include "compiler/backends/cpu/workspace.h"

#include <algorithm>

#include "compiler/ir/arena.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {
namespace {

using Placed = llvm::SmallVector<std::pair<mlir::Value, int64_t>>;

bool holds(const Placed& scratch, mlir::Value root) {
  return llvm::any_of(scratch, [root](const auto& entry) { return entry.first == root; });
}

/// Calls `touch` for the roots of all memory that `op` refers to, nested regions included.
void touchOperands(mlir::Operation* op, llvm::function_ref<void(mlir::Value)> touch) {
  op->walk([&](mlir::Operation* inner) {
    for (mlir::Value operand : inner->getOperands())
      if (llvm::isa<mlir::BaseMemRefType>(operand.getType())) touch(rootOf(operand));
  });
}

void touchNest(const Nest& nest, llvm::function_ref<void(mlir::Value)> touch) {
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      if (!input.from) touch(input.access.root);
    for (auto [o, output] : llvm::enumerate(statement.outputs))
      if (statement.stored[o]) touch(output.access.root);
    // A body may load from memory it captures (a gather).
    for (mlir::Operation& op : *statement.body()) touchOperands(&op, touch);
  }
}

/// Calls `touch` for all buffers that the phase uses.
void touchPhase(const Phase& phase, llvm::function_ref<void(mlir::Value)> touch) {
  for (mlir::Operation* op : phase.loops) {
    touchOperands(op, touch);
    op->walk([&](mlir::memref::AllocOp alloc) { touch(alloc.getResult()); });
  }
  for (const Nest& nest : phase.nests) touchNest(nest, touch);
  if (!phase.region) return;
  for (const RegionVariant& variant : phase.region->variants)
    for (const RegionNestRun& step : variant.steps) touchNest(step.nest, touch);
}

}  // namespace

void planWorkspace(mlir::func::FuncOp func, PhaseList& list) {
  std::vector<std::pair<mlir::Value, Lifetime>> temporaries;
  func.walk([&](mlir::memref::AllocOp alloc) {
    auto type = alloc.getType();
    const int64_t bits = type.getElementType().isIndex() ? 64 : type.getElementTypeBitWidth();
    const int64_t bytes = type.getNumElements() * ((bits + 7) / 8);
    temporaries.push_back({alloc.getResult(), {bytes, static_cast<int>(list.phases.size()), -1}});
  });
  for (auto [p, phase] : llvm::enumerate(list.phases))
    touchPhase(phase, [&, p = static_cast<int>(p), &phase = phase](mlir::Value root) {
      if (holds(phase.scratch, root) || (phase.region && holds(phase.region->scratch, root))) return;
      for (auto& [buffer, lifetime] : temporaries)
        if (buffer == root) {
          lifetime.first = std::min(lifetime.first, p);
          lifetime.last = std::max(lifetime.last, p);
        }
    });
  std::erase_if(temporaries, [](const auto& each) { return each.second.last < each.second.first; });  // never used
  std::vector<Lifetime> lifetimes;
  for (const auto& each : temporaries) lifetimes.push_back(each.second);
  const Arena arena = packArena(lifetimes, Packing::kOnce);
  list.workspace_bytes = arena.bytes;
  for (auto [each, offset] : llvm::zip_equal(temporaries, arena.offsets))
    list.temporaries.emplace_back(each.first, offset);
}

}  // namespace tessera::compiler::codegen
