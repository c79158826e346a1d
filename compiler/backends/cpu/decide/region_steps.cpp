#include "compiler/backends/cpu/decide/region_steps.h"

#include <limits>

#include "compiler/backends/cpu/kernel/nest_instruction.h"
#include "compiler/backends/cpu/kernel/registry.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"

namespace tessera::compiler::codegen {
namespace {

/// The constraints that existing panels put on the plan of a nest.
PlanConstraints wantedBy(const RegionPanels& panels, const RegionNest& each, const Chip& chip, bool main) {
  PlanConstraints wanted;
  if (main) return wanted;
  for (const SharedPanels& shared : panels.shared()) {
    if (shared.number != each.number) continue;
    if (!wanted.packed) wanted.packed.emplace();
    wanted.packed->push_back(shared.input);
    // Panels of the vector operand fix the number of vectors of the tile, but not its rows.
    const int64_t lanes = chip.vectorBits() / elementBits(shared.source.element);
    if ((shared.along == 1 || shared.width % lanes == 0) && wanted.vectors == 0)
      wanted.vectors = ceilDiv(shared.width, lanes);
  }
  return wanted;
}

/// Chooses the instruction of the fewest cycles that can read the existing panels, or none.
TilePlan planStep(mlir::OpBuilder& builder, const RegionPanels& panels, RegionNest& each, const Chip& chip, bool main) {
  const auto fits = [&](const TilePlan& plan) {
    return llvm::all_of(plan.packed, [&](const PackedOperand& packed) {
      return panels.choosesPanels(each, packed.input) || panels.sharedFor(each, plan, packed);
    });
  };
  std::vector<Nest> forms = instructionVariants(builder, each.nest, chip, wantedBy(panels, each, chip, main));
  // The plain form is last: multiply-adds can run any nest.
  forms.push_back(std::move(each.nest));
  TilePlan plan;
  for (Nest& form : forms) {
    each.nest = std::move(form);
    plan = planTile(each.nest, chip, wantedBy(panels, each, chip, main));
    // Existing panels do not suit this nest: reads the operand unpacked.
    if (!fits(plan)) plan = planTile(each.nest, chip, {.packed = llvm::SmallVector<int>()});
    const auto& step = each.nest.statements[0].step;
    if (fits(plan) && (!step || plan.kernel->evaluates(*step))) break;
  }
  // Panels of a region are filled by steps of their own, not block by block within the product.
  for (PackedOperand& packed : plan.packed) {
    packed.within = false;
    packed.ahead = 0;
    if (!panels.choosesPanels(each, packed.input))
      packed = panels.asShared(*panels.sharedFor(each, plan, packed), each, packed);
  }
  return plan;
}

void decideVariant(mlir::OpBuilder& builder, const Chip& chip, std::vector<RegionNest>& nests, RegionVariant& variant,
                   RegionPanels& panels, bool main) {
  panels.begin(variant, nests, main);
  const auto repeat = [&](int upto) {
    while (const SharedPanels* shared = panels.nextRepeated(upto)) panels.repeat(*shared);
  };
  for (RegionNest& each : nests) {
    repeat(each.number);
    panels.countRuns(each);
    TilePlan plan = planStep(builder, panels, each, chip, main);
    for (const PackedOperand& packed : plan.packed) {
      if (!panels.choosesPanels(each, packed.input)) {
        panels.read(each, plan, packed);
        continue;
      }
      NewPanels created = panels.create(each, plan, packed);
      TilePlan copy = planCopy(created.copy.nest, each.nest, packed, created.copy.loops, created.copy.width, chip);
      panels.add(std::move(created), std::move(copy));
    }
    panels.add(std::move(each), std::move(plan));
  }
  repeat(std::numeric_limits<int>::max());
}

}  // namespace

void decideSteps(mlir::OpBuilder& builder, const Chip& chip, std::vector<std::vector<RegionNest>>& nests,
                 Region& region, RegionPanels& panels) {
  // The variant with the most slices is planned first: it chooses the panels, and the others adapt to them.
  const size_t main = RegionPanels::mainVariant(region, nests);
  decideVariant(builder, chip, nests[main], region.variants[main], panels, true);
  for (size_t i = 0; i < region.variants.size(); ++i)
    if (i != main) decideVariant(builder, chip, nests[i], region.variants[i], panels, false);
}

}  // namespace tessera::compiler::codegen
