#include "compiler/backends/cpu/apply/packing.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

constexpr int64_t kAlignment = 64;  // of scratch memory

/// Moves an operand to panels that are filled block by block within the thread's scratch. `leaf`: of the nest.
absl::StatusOr<mlir::Value> packWithin(mlir::OpBuilder& builder, Nest& nest, TilePlan& plan,
                                       const PackedOperand& packed, int number, const Chip& chip, const Leaf& leaf) {
  BlockPanels panels = blockPanels(nest, plan, packed);
  const v1::Stage& stage =
      *llvm::find_if(leaf.tile->stages(), [&](const v1::Stage& each) { return each.operand() == packed.input; });
  if (const int kinds = 1 << panels.copy.partial_loops.size(); stage.copies_size() != kinds)
    return scheduleFault(leaf.path, "leaves of a copy within blocks, one for each combination of whole and last blocks",
                         absl::StrCat(stage.copies_size()), absl::StrCat(kinds));
  if (std::string accepted = refusedDistance(nest, plan, packed, panels.loops); !accepted.empty())
    return scheduleFault(leaf.path, "elements from one row to the next", absl::StrCat(packed.distance), accepted);
  mlir::Value buffer = moveToBlockPanels(builder, nest, plan, packed, panels);
  for (auto [n, copy] : llvm::enumerate(panels.copy.nests)) {
    const Leaf its{&stage.copies(static_cast<int>(n)), absl::StrCat(leaf.path, " copy ", n)};
    TESSERA_ASSIGN_OR_RETURN(auto copy_plan, packPlanOf(its, copy, number, packed.input, panels.width, chip));
    panels.copy.plans.push_back(std::move(copy_plan));
  }
  plan.copies.push_back(std::move(panels.copy));
  return buffer;
}

}  // namespace

absl::Status packOperands(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule& tree) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  std::vector<Phase> phases;
  for (auto [phase, part] : llvm::zip_equal(list.phases, tree.phases)) {
    Phase packing;
    for (size_t n = 0; n < phase.nests.size(); ++n)
      for (const PackedOperand& packed : llvm::SmallVector<PackedOperand>(phase.plans[n].packed)) {
        const int number = phase.first + static_cast<int>(n);
        // Copied block by block into the thread's scratch; all other operands by a phase before this one.
        if (packed.within) {
          TESSERA_ASSIGN_OR_RETURN(
              auto panels, packWithin(builder, phase.nests[n], phase.plans[n], packed, number, chip, part.leaves[n]));
          phase.scratch.emplace_back(panels, phase.scratch_bytes);
          const auto type = llvm::cast<mlir::MemRefType>(panels.getType());
          const int64_t bytes = type.getNumElements() * elementBits(type.getElementType()) / 8;
          phase.scratch_bytes += ceilDiv(bytes, kAlignment) * kAlignment;
          continue;
        }
        if (packing.nests.size() >= part.copies.size())
          return scheduleFault(part.path, "operands in panels need leaves that copy them",
                               absl::StrCat(part.copies.size(), " leaves"), "one leaf for each in the phase before");
        const Leaf& leaf = part.copies[packing.nests.size()];
        PanelCopy copy = moveToPanels(builder, phase.nests[n], phase.plans[n], packed);
        TESSERA_ASSIGN_OR_RETURN(auto plan, packPlanOf(leaf, copy.nest, number, packed.input, copy.width, chip));
        packing.nests.push_back(std::move(copy.nest));
        packing.plans.push_back(std::move(plan));
        packing.copies.push_back({number, packed.input});
      }
    if (packing.nests.size() != part.copies.size())
      return scheduleFault(part.copies[packing.nests.size()].path, "a copy that no nest reads",
                           printTileLine(*part.copies[packing.nests.size()].tile), "no leaf");
    if (!packing.nests.empty()) phases.push_back(std::move(packing));
    phases.push_back(std::move(phase));
  }
  list.phases = std::move(phases);
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
