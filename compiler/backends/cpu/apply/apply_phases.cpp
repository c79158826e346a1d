#include "compiler/backends/cpu/apply/apply_phases.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/kernel/nest_instruction.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Checks that the operations sharing nests are those that the tree lists.
absl::Status checkFused(const std::vector<llvm::SmallVector<int>>& fused, const ParsedSchedule& tree) {
  for (const llvm::SmallVector<int>& wanted : tree.fused)
    if (!llvm::is_contained(fused, wanted))
      return scheduleFault(
          "",
          "these operations cannot share a nest: their loops differ, or an operation between them needs their order",
          absl::StrJoin(wanted, "+"), "operations that each read the result of the one before");
  if (fused != tree.fused)
    return scheduleFault("", "nests of several operations must be in program order", "another order", "");
  return absl::OkStatus();
}

/// The tree's phase of each item, if the tree's phases consist of the items in order.
absl::StatusOr<std::vector<int>> phaseOfItems(llvm::ArrayRef<WorkItem> items, const ParsedSchedule& tree) {
  std::vector<int> phase_of(items.size(), -1);
  size_t phase = 0, taken = 0;  // leaves of the phase
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].removed) continue;
    const size_t nests = items[i].nests().size();
    // Whether the tree's current phase can take the next item.
    auto room = [&] {
      if (phase >= tree.phases.size()) return false;
      const ParsedPhase& each = tree.phases[phase];
      return each.sequential ? nests == 0 : nests > 0 && taken + nests <= each.leaves.size();
    };
    if (taken > 0 && !room()) {
      ++phase;
      taken = 0;
    }
    if (!room())
      return scheduleFault(phase < tree.phases.size() ? tree.phases[phase].path : "",
                           "the phases do not contain the nests of the workload in order",
                           absl::StrCat("no leaf for operation ", items[i].operations.front()),
                           nests > 0 ? absl::StrCat(nests, " leaves for it") : "a sequential phase");
    phase_of[i] = static_cast<int>(phase);
    taken += std::max<size_t>(1, nests);
  }
  const size_t used = taken > 0 ? phase + 1 : phase;
  if (used < tree.phases.size() ||
      (used > 0 && !tree.phases[used - 1].sequential && taken < tree.phases[used - 1].leaves.size()))
    return scheduleFault(used < tree.phases.size() ? tree.phases[used].path : tree.phases[used - 1].path,
                         "leaves without a loop nest", "more leaves than the workload has nests",
                         "one leaf for each nest");
  return phase_of;
}

}  // namespace

absl::Status applyFusion(std::vector<WorkItem>& items, const Chip& chip, const ParsedSchedule& tree) {
  for (size_t i = 0; i < items.size(); ++i) {
    std::optional<FusionCandidate> candidate = fusionCandidate(items, i);
    if (!candidate) continue;
    if (tree.joins(items[i].operations.back(), items[candidate->reader].operations.front())) {
      fuse(items, i, *std::move(candidate));  // the reader is visited later in this loop
    } else if (!candidate->loses_vectors && candidate->spills(chip.vectorRegisters())) {
      items[i].cut =
          absl::StrCat("cut: ", candidate->live_vectors, " values for ", chip.vectorRegisters(), " registers");
    }
  }
  completeNests(items);
  return checkFused(fusedOperations(items), tree);
}

absl::StatusOr<PhaseList> applyPhases(llvm::ArrayRef<WorkItem> items, const ParsedSchedule& tree) {
  TESSERA_ASSIGN_OR_RETURN(auto phase_of, phaseOfItems(items, tree));
  ItemGroups groups;
  int previous = -1;
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    const WorkItem& item = items[i];
    if (item.removed) continue;
    const bool may_join = !groups.empty() && mayShareAPhase(items, groups.back(), i);
    const bool joins = phase_of[i] == previous;
    if (joins && !may_join)
      return scheduleFault(tree.phases[previous].path, "nests of one phase depend on each other",
                           absl::StrCat("operation ", item.operations.front(), " in one phase with earlier ones"),
                           "a separate phase");
    if (!joins && may_join && !item.nest)
      return scheduleFault(tree.phases[previous].path,
                           "operations that are not loop nests must be in one sequential phase", "several", "one");
    previous = phase_of[i];
    if (!joins) groups.emplace_back();
    groups.back().push_back(i);
  }
  return phasesOf(items, groups);
}

absl::Status applyInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule& tree) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  for (auto [phase, part] : llvm::zip_equal(list.phases, tree.phases)) {
    if (part.sequential) continue;
    for (auto [nest, leaf] : llvm::zip_equal(phase.nests, part.leaves))
      if (absl::Status status = rewriteNestFor(builder, nest, chip, leaf.tile->kernel().instruction(), leaf.path);
          !status.ok())
        return status;
  }
  return absl::OkStatus();
}

absl::Status applyPlans(PhaseList& list, const Chip& chip, const ParsedSchedule& tree) {
  for (auto [phase, part] : llvm::zip_equal(list.phases, tree.phases)) {
    if (part.sequential) continue;
    phase.concurrent = part.concurrent;
    for (auto [n, nest] : llvm::enumerate(phase.nests)) {
      const Leaf& leaf = part.leaves[n];
      if (const v1::Prefetch& fetch = leaf.tile->kernel().prefetch();
          fetch.next_slice_size() > 0 || fetch.next_blocks_size() > 0)
        return scheduleFault(leaf.path, "a kernel outside of slices has no next slice to prefetch",
                             printTileLine(*leaf.tile), "a kernel without the prefetches `next` and `blocks`");
      TESSERA_ASSIGN_OR_RETURN(auto plan, planOf(leaf, nest, phase.first + static_cast<int>(n), chip));
      phase.plans.push_back(std::move(plan));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
