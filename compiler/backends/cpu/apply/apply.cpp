#include "compiler/backends/cpu/apply/apply.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/apply/apply_phases.h"
#include "compiler/backends/cpu/apply/apply_region.h"
#include "compiler/backends/cpu/apply/packing.h"
#include "compiler/backends/cpu/emit/sequential.h"
#include "compiler/schedule/fault.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

// Two trees with the same code would be two points of a search: settings without effect are therefore errors.
absl::Status checkEffects(const Nest& nest, const TilePlan& plan, const std::string& path) {
  if (std::string what = redundantSettings(nest, plan); !what.empty())
    return scheduleFault(path, "prefetch has no effect: the kernel never reads that operand", what,
                         "a kernel without it");
  if (!hasCanonicalReductionOrder(nest, plan))
    return scheduleFault(path, "the order of these reduction loops has no effect on the code",
                         "a loop that the tile covers entirely before another one",
                         "loops with several steps before those that the tile covers entirely");
  return absl::OkStatus();
}

/// Refuses settings of any leaf that have no effect on the code.
absl::Status checkEffects(const PhaseList& list, const ParsedSchedule& tree) {
  absl::Status status;
  if (tree.region) {
    const Region& region = *list.phases.back().region;
    for (auto [variant, part] : llvm::zip_equal(region.variants, tree.region->variants))
      for (auto [step, leaf] : llvm::zip_equal(variant.steps, part.leaves))
        if (status.ok()) status = checkEffects(step.nest, step.plan, leaf.path);
    return status;
  }
  // Phases that copy to panels are not phases of the tree: they belong to the phase that reads the panels.
  const ParsedPhase* part = tree.phases.data();
  for (const Phase& phase : list.phases) {
    if (!phase.copies.empty()) continue;
    for (auto [n, plan] : llvm::enumerate(phase.plans))
      if (status.ok()) status = checkEffects(phase.nests[n], plan, part->leaves[n].path);
    ++part;
  }
  return status;
}

/// Whether the tree is a single sequential leaf, as for a workload whose operations pass scalars to each other.
bool isOneSequence(const ParsedSchedule& tree) {
  return !tree.region && tree.fused.empty() && tree.phases.size() == 1 && tree.phases[0].sequential &&
         tree.phases[0].copies.empty();
}

/// The phases of a tree that is one sequence.
// A sequential leaf stands for all operations in program order, so that the tree decides nothing.
absl::StatusOr<PhaseList> applySequence(const WorkloadAnalysis& workload) {
  std::vector<WorkItem> items = workload.items;
  completeNests(items);
  PhaseList list = phasesOf(items, largestPhases(items));
  if (phasesShareValues(list)) return mergeIntoOnePhase(workload.func);
  if (llvm::all_of(list.phases, [](const Phase& phase) { return !phase.loops.empty(); })) return list;
  return scheduleFault("0", "a sequential phase contains loop nests", "sequential", "leaves with the nests' kernels");
}

}  // namespace

absl::StatusOr<PhaseList> applySchedule(const WorkloadAnalysis& workload, Chip& chip, const v1::Schedule& schedule) {
  const int bits = schedule.vector_bits();
  if (bits < 64 || bits > chip.vectorBits() || (bits & (bits - 1)) != 0)
    return scheduleFault(
        "", "width of a vector in bits", absl::StrCat(bits),
        absl::StrCat("a power of two, 64 to ", chip.vectorBits(), ", the width of the chip's registers"));
  // Lanes of all kernels follow from the width, so it is set before any plan is read.
  chip.narrowVectors(bits);
  TESSERA_ASSIGN_OR_RETURN(auto tree, ParsedSchedule::of(schedule));
  if (isOneSequence(tree)) return applySequence(workload);
  std::vector<WorkItem> items = workload.items;
  TESSERA_RETURN_IF_ERROR(applyFusion(items, chip, tree));
  PhaseList list;
  if (tree.region) {
    list = phasesOf(items, largestPhases(items));  // a region takes the nests of all phases
  } else {
    TESSERA_ASSIGN_OR_RETURN(list, applyPhases(items, tree));
  }
  if (phasesShareValues(list))
    return scheduleFault("0", "operations that pass scalars to each other must be in one sequential phase",
                         "several tiles", "[] sequential nest 0");
  if (tree.region) {
    TESSERA_RETURN_IF_ERROR(applyRegion(workload.func, list, chip, *tree.region));
  } else {
    for (Phase& phase : list.phases)
      for (Nest& nest : phase.nests) mergeLoops(nest);
    TESSERA_RETURN_IF_ERROR(applyInstructions(workload.func, list, chip, tree));
    TESSERA_RETURN_IF_ERROR(applyPlans(list, chip, tree));
    TESSERA_RETURN_IF_ERROR(packOperands(workload.func, list, chip, tree));
  }
  TESSERA_RETURN_IF_ERROR(checkEffects(list, tree));
  return list;
}

}  // namespace tessera::compiler::codegen
