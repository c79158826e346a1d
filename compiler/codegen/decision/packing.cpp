#include "compiler/codegen/decision/packing.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/kernel/registry.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/codegen/tree/panels.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

constexpr int64_t kAlignment = 64;  // of scratch memory

/// The k-th leaf of the copies before a phase; an error when there is none.
absl::StatusOr<const Leaf*> copyLeaf(const ParsedPhase* followed, size_t k) {
  if (!followed) return nullptr;
  if (k >= followed->copies.size())
    return scheduleFault(followed->path, "operands in panels without leaves that copy them",
                         absl::StrCat(followed->copies.size(), " leaves"), "one leaf for each in the phase before");
  return &followed->copies[k];
}

}  // namespace

void planPhases(PhaseList& list, const Chip& chip, const ScheduleRequest& request) {
  PlanConstraints wanted{.nested = request.nested};
  if (request.packed) wanted.packed.emplace(request.packed->begin(), request.packed->end());
  for (Phase& phase : list.phases) {
    if (!phase.plans.empty()) continue;  // a phase that fills panels of a region
    for (const Nest& nest : phase.nests)
      phase.plans.push_back(request.scalar ? planScalar(nest, chip) : planTile(nest, chip, wanted));
  }
}

absl::Status applyPhases(PhaseList& list, const Chip& chip, const ParsedSchedule& tree) {
  for (auto [phase, followed] : llvm::zip_equal(list.phases, tree.phases)) {
    if (followed.sequential) continue;
    phase.concurrent = followed.concurrent;
    for (auto [n, nest] : llvm::enumerate(phase.nests)) {
      const Leaf& leaf = followed.leaves[n];
      if (const v1::Prefetch& fetch = leaf.tile->kernel().prefetch();
          fetch.next_slice_size() > 0 || fetch.next_blocks_size() > 0)
        return scheduleFault(leaf.path, "outside of slices there is no next one", printTileLine(*leaf.tile),
                             "a kernel that fetches neither next nor blocks");
      TESSERA_ASSIGN_OR_RETURN(auto plan, planOf(leaf, nest, phase.first + static_cast<int>(n), chip));
      phase.plans.push_back(std::move(plan));
    }
  }
  return absl::OkStatus();
}

absl::Status packOperands(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule* followed) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  std::vector<Phase> phases;
  for (auto [p, phase] : llvm::enumerate(list.phases)) {
    const ParsedPhase* tree = followed && !followed->region ? &followed->phases[p] : nullptr;
    Phase packing;
    for (size_t n = 0; n < phase.nests.size() && phase.copies.empty(); ++n)
      for (const PackedOperand& packed : llvm::SmallVector<PackedOperand>(phase.plans[n].packed)) {
        const int number = phase.first + static_cast<int>(n);
        // Copied block by block into the thread's scratch; all other operands by a phase before this one.
        if (packed.within) {
          TESSERA_ASSIGN_OR_RETURN(auto panels, packWithin(builder, phase.nests[n], phase.plans[n], packed, number,
                                                           chip, tree ? &tree->leaves[n] : nullptr));
          phase.scratch.emplace_back(panels, phase.scratch_bytes);
          const auto type = llvm::cast<mlir::MemRefType>(panels.getType());
          const int64_t bytes = type.getNumElements() * elementBits(type.getElementType()) / 8;
          phase.scratch_bytes += ceilDiv(bytes, kAlignment) * kAlignment;
          continue;
        }
        TESSERA_ASSIGN_OR_RETURN(auto leaf, copyLeaf(tree, packing.nests.size()));
        TESSERA_ASSIGN_OR_RETURN(auto copy,
                                 packInput(builder, phase.nests[n], phase.plans[n], packed, number, chip, leaf));
        packing.nests.push_back(std::move(copy.nest));
        packing.plans.push_back(std::move(copy.plan));
        packing.copies.push_back({number, packed.input});
      }
    if (tree && packing.nests.size() != tree->copies.size())
      return scheduleFault(tree->copies[packing.nests.size()].path, "a copy that no operand is read from",
                           printTileLine(*tree->copies[packing.nests.size()].tile), "no leaf");
    if (!packing.nests.empty()) phases.push_back(std::move(packing));
    phases.push_back(std::move(phase));
  }
  list.phases = std::move(phases);
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
