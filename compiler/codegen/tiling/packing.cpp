#include "compiler/codegen/tiling/packing.h"

#include "compiler/codegen/emit/body_op.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {
namespace {

/// Loops of the packed array, slowest first: those of the plan that `operand` walks, panels, reductions.
llvm::SmallVector<int> loopsOf(const TilePlan& plan, const Operand& operand, int panel_loop) {
  llvm::SmallVector<int> loops;
  for (int loop : plan.order)
    if (loop != panel_loop && varies(operand, loop)) loops.push_back(loop);
  loops.push_back(panel_loop);
  for (int loop : plan.reductions)
    if (loop != panel_loop && varies(operand, loop)) loops.push_back(loop);
  return loops;
}

/// At least `elements`, an odd number of cache lines.
int64_t oddLines(int64_t elements, int64_t element_bytes) {
  constexpr int64_t kLine = 64;
  const int64_t lines = ceilDiv(elements * element_bytes, kLine) | 1;
  return lines * kLine / element_bytes;
}

}  // namespace

std::pair<Nest, TilePlan> packInput(mlir::OpBuilder& builder, Nest& nest, const TilePlan& plan,
                                    const PackedOperand& packed, const Machine& machine) {
  Operand& operand = nest.statements[0].inputs[packed.input];
  // Along a reduction there is one panel, all of the loop.
  const bool whole = nest.reduction[packed.loop];
  const int64_t width = whole ? nest.extents[packed.loop] : plan.tile[packed.loop];
  const llvm::SmallVector<int> loops = loopsOf(plan, operand, packed.loop);

  Access panels;
  panels.element = operand.access.element;
  panels.strides.assign(nest.loops(), 0);
  panels.panel.assign(nest.loops(), 0);
  int64_t elements = width;
  if (packed.apart) elements = 1;
  for (int loop : llvm::reverse(loops)) {
    if (packed.apart) {
      if (loop == packed.loop) elements = oddLines(elements, elementBits(panels.element) / 8);
      panels.strides[loop] = panels.panel[loop] = elements;
      elements *= nest.extents[loop];
    } else if (loop == packed.loop) {
      panels.strides[loop] = 1;
      panels.panel[loop] = elements / width;  // from panel to panel: `elements` for `width` iterations
      elements *= ceilDiv(nest.extents[loop], width);
    } else {
      panels.strides[loop] = panels.panel[loop] = elements;
      elements *= nest.extents[loop];
    }
  }
  panels.root = mlir::memref::AllocOp::create(builder, builder.getUnknownLoc(),
                                              mlir::MemRefType::get({elements}, operand.access.element));

  Nest copy;
  Statement statement;
  statement.op = bodyOp(builder, panels.element, 1,
                        [](mlir::OpBuilder&, mlir::Location, mlir::ValueRange arguments) { return arguments[0]; });
  auto narrowed = [&](const Access& access) {
    Access result = access;
    result.strides.clear();
    result.panel.clear();
    for (int loop : loops) result.strides.push_back(access.strides[loop]);
    if (!access.panel.empty())
      for (int loop : loops) result.panel.push_back(access.panel[loop]);
    return result;
  };
  statement.inputs.push_back({narrowed(operand.access), nullptr, std::nullopt});
  statement.outputs.push_back({narrowed(panels), nullptr, std::nullopt});
  statement.init.push_back(nullptr);
  statement.stored.push_back(true);
  for (int loop : loops) {
    copy.extents.push_back(nest.extents[loop]);
    copy.reduction.push_back(false);
  }
  statement.index_weights.emplace_back(loops.size(), 0);
  copy.statements.push_back(std::move(statement));
  operand.access = std::move(panels);
  const int position = static_cast<int>(llvm::find(loops, packed.loop) - loops.begin());
  TilePlan copy_plan = whole || packed.apart ? planTile(copy, machine, {}) : planCopy(copy, machine, position, width);
  copy_plan.strategy = "pack";
  return {std::move(copy), std::move(copy_plan)};
}

void planPhases(PhaseList& list, const Machine& machine, const v1::Schedule& schedule) {
  const Nest* dominant = nullptr;
  for (const Phase& phase : list.phases)
    for (const Nest& nest : phase.nests)
      if (!dominant || nest.iterations() > dominant->iterations()) dominant = &nest;
  v1::Schedule others;
  if (schedule.strategy() == kScalarStrategy) others.set_strategy(kScalarStrategy);
  for (Phase& phase : list.phases) {
    if (!phase.plans.empty()) continue;  // panels of a region
    for (const Nest& nest : phase.nests)
      phase.plans.push_back(planTile(nest, machine, &nest == dominant ? schedule : others));
  }
}

void packOperands(mlir::func::FuncOp func, PhaseList& list, const Machine& machine) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  std::vector<Phase> phases;
  for (Phase& phase : list.phases) {
    Phase packing;
    for (size_t n = 0; n < phase.nests.size(); ++n)
      for (const PackedOperand& packed : phase.plans[n].packed) {
        auto [copy, plan] = packInput(builder, phase.nests[n], phase.plans[n], packed, machine);
        packing.nests.push_back(std::move(copy));
        packing.plans.push_back(std::move(plan));
      }
    if (!packing.nests.empty()) phases.push_back(std::move(packing));
    phases.push_back(std::move(phase));
  }
  list.phases = std::move(phases);
}

}  // namespace tessera::compiler::codegen
