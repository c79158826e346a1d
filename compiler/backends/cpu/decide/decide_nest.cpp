#include "compiler/backends/cpu/decide/decide_nest.h"

#include "compiler/backends/cpu/kernel/nest_instruction.h"
#include "compiler/backends/cpu/kernel/registry.h"

namespace tessera::compiler::codegen {
namespace {

/// Adds the copies of an operand that is packed block by block to the plan.
void packWithin(mlir::OpBuilder& builder, Nest& nest, TilePlan& plan, const PackedOperand& packed, const Chip& chip) {
  BlockPanels panels = blockPanels(nest, plan, packed);
  moveToBlockPanels(builder, nest, plan, packed, panels);
  for (const Nest& copy : panels.copy.nests)
    panels.copy.plans.push_back(planCopy(copy, nest, packed, panels.loops, panels.width, chip));
  plan.copies.push_back(std::move(panels.copy));
}

}  // namespace

void rewriteForInstruction(mlir::OpBuilder& builder, Nest& nest, const Chip& chip) {
  if (std::vector<Nest> forms = instructionVariants(builder, nest, chip); !forms.empty()) nest = std::move(forms[0]);
}

v1::Tile phaseOf(std::vector<v1::Tile> leaves) {
  if (leaves.size() == 1) return std::move(leaves[0]);
  v1::Tile phase;
  phase.set_join(v1::Tile::SEQ);
  for (v1::Tile& leaf : leaves) *phase.add_children() = std::move(leaf);
  return phase;
}

void completePlan(const Nest& nest, const Chip& chip, TilePlan& plan) {
  plan.interleaved = choosesInterleaving(nest, chip, plan);
  dropRedundantSettings(nest, plan);
  canonicalizeReductionOrder(nest, plan);
}

v1::Tile decideNest(mlir::OpBuilder& builder, Nest nest, int number, const Chip& chip, const ScheduleRequest& request,
                    std::vector<v1::Tile>& copies) {
  mergeLoops(nest);
  TilePlan plan;
  if (request.scalar) {
    plan = planScalar(nest, chip);
  } else {
    rewriteForInstruction(builder, nest, chip);
    PlanConstraints wanted{.nested = request.nested};
    if (request.packed) wanted.packed.emplace(request.packed->begin(), request.packed->end());
    plan = planTile(nest, chip, wanted);
  }
  for (const PackedOperand& packed : llvm::SmallVector<PackedOperand>(plan.packed)) {
    if (packed.within) {
      packWithin(builder, nest, plan, packed, chip);
      continue;
    }
    PanelCopy copy = moveToPanels(builder, nest, plan, packed);
    TilePlan copy_plan = planCopy(copy.nest, nest, packed, copy.loops, copy.width, chip);
    splitGrid(copy.nest, chip, copy_plan);
    completePlan(copy.nest, chip, copy_plan);
    copies.push_back(packLeafOf(copy.nest, copy_plan, number, packed.input));
  }
  splitGrid(nest, chip, plan);
  completePlan(nest, chip, plan);
  return leafOf(nest, plan, number);
}

}  // namespace tessera::compiler::codegen
