#include "compiler/codegen/decision/decide.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/decision/instructions.h"
#include "compiler/codegen/decision/packing.h"
#include "compiler/codegen/decision/record.h"
#include "compiler/codegen/emit/sequential.h"
#include "compiler/codegen/region/region_chain.h"
#include "compiler/schedule/fault.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

void mergeAllLoops(PhaseList& list) {
  for (Phase& phase : list.phases)
    if (phase.plans.empty())
      for (Nest& nest : phase.nests) mergeLoops(nest);
}

template <typename Fn>
void forEachPlan(PhaseList& list, Fn fn) {
  for (Phase& phase : list.phases) {
    for (auto [nest, plan] : llvm::zip_equal(phase.nests, phase.plans)) fn(nest, plan);
    if (!phase.region) continue;
    for (RegionVariant& variant : phase.region->variants)
      for (RegionNestRun& step : variant.steps) fn(step.nest, step.plan);
  }
}

// Two trees with the same code would be two points of a search: settings without effect are therefore errors.
absl::Status checkEffects(const Nest& nest, const TilePlan& plan, const std::string& path) {
  if (std::string what = redundantSettings(nest, plan); !what.empty())
    return scheduleFault(path, "a kernel fetches what there is nothing of", what, "a kernel without it");
  if (!hasCanonicalReductionOrder(nest, plan))
    return scheduleFault(path, "no code shows the order of these sums", "one that the tile holds whole before another",
                         "loops that go round before those that the tile holds whole");
  return absl::OkStatus();
}

/// Refuses settings of any leaf that have no effect on the code.
absl::Status checkEffects(const PhaseList& list, const ParsedSchedule& tree) {
  absl::Status status;
  if (tree.region) {
    const Region& region = *list.phases.back().region;
    for (auto [variant, followed] : llvm::zip_equal(region.variants, tree.region->variants))
      for (auto [step, leaf] : llvm::zip_equal(variant.steps, followed.leaves))
        if (status.ok()) status = checkEffects(step.nest, step.plan, leaf.path);
    return status;
  }
  // Phases that copy to panels are not phases of the tree: they belong to the phase that reads the panels.
  const ParsedPhase* followed = tree.phases.data();
  for (const Phase& phase : list.phases) {
    if (!phase.copies.empty()) continue;
    for (auto [n, plan] : llvm::enumerate(phase.plans))
      if (status.ok()) status = checkEffects(phase.nests[n], plan, followed->leaves[n].path);
    ++followed;
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
absl::StatusOr<PhaseList> followSequence(mlir::func::FuncOp func, const Chip& chip) {
  TESSERA_ASSIGN_OR_RETURN(auto list, splitPhases(func, chip.vectorRegisters(), nullptr));
  if (phasesShareValues(list)) return mergeIntoOnePhase(func);
  if (llvm::all_of(list.phases, [](const Phase& phase) { return !phase.loops.empty(); })) return list;
  return scheduleFault("0", "nests of loops are phases of their own", "sequential", "leaves with the nests' kernels");
}

absl::Status followRegionOf(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedRegion& followed) {
  TESSERA_RETURN_IF_ERROR(applyParsedRegion(func, list, chip, followed));
  const int64_t bytes = list.phases.back().region->scratch_bytes;
  if (const std::string level = chip.levelHolding(static_cast<double>(bytes)).name;
      followed.tile.tile->level() != level)
    return scheduleFault(followed.tile.path, absl::StrCat("level that holds what lies between, ", bytes, " bytes"),
                         followed.tile.tile->level(), level);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PhaseList> choosePhases(mlir::func::FuncOp func, const Chip& chip, const ScheduleRequest& request) {
  TESSERA_ASSIGN_OR_RETURN(auto list, splitPhases(func, chip.vectorRegisters(), nullptr));
  const bool shares = phasesShareValues(list);
  if (request.slices.order_size() > 0) {
    if (shares)
      return refuseChain("a loop nest uses a value that another operation loads", "a scalar read outside of loops",
                         "structured operations (linalg)");
    TESSERA_RETURN_IF_ERROR(formChain(func, list, chip, request.slices));
  } else if (shares) {
    return mergeIntoOnePhase(func);
  } else if (!request.scalar && request.row_regions) {
    formRowRegion(func, list, chip);
  }
  // After regions are formed: slices need the loops of the original dimensions.
  mergeAllLoops(list);
  if (!request.scalar) chooseInstructions(func, list, chip);
  planPhases(list, chip, request);
  TESSERA_RETURN_IF_ERROR(packOperands(func, list, chip, nullptr));
  splitGrids(list, chip);
  // The default must be a tree that buildObject() accepts, so it gets the same normal form that checkEffects()
  // requires.
  forEachPlan(list, [&](const Nest& nest, TilePlan& plan) {
    plan.interleaved = choosesInterleaving(nest, chip, plan);
    dropRedundantSettings(nest, plan);
    canonicalizeReductionOrder(nest, plan);
  });
  return list;
}

absl::StatusOr<PhaseList> applySchedule(mlir::func::FuncOp func, Chip& chip, const v1::Schedule& schedule) {
  const int bits = schedule.vector_bits();
  if (bits < 64 || bits > chip.vectorBits() || (bits & (bits - 1)) != 0)
    return scheduleFault("", "bits of a vector", absl::StrCat(bits),
                         absl::StrCat("a power of two, 64 to ", chip.vectorBits(), ", those of a register"));
  // Lanes of all kernels follow from the width, so it is set before any plan is read.
  chip.narrowVectors(bits);
  TESSERA_ASSIGN_OR_RETURN(auto tree, ParsedSchedule::of(schedule));
  if (isOneSequence(tree)) return followSequence(func, chip);
  TESSERA_ASSIGN_OR_RETURN(auto list, splitPhases(func, chip.vectorRegisters(), &tree));
  if (phasesShareValues(list))
    return scheduleFault("0", "operations that hand scalars to each other run one after another", "several tiles",
                         "[] sequential nest 0");
  absl::Status status;
  if (tree.region) {
    status = followRegionOf(func, list, chip, *tree.region);
  } else {
    mergeAllLoops(list);
    status = applyInstructions(func, list, chip, tree);
    if (status.ok()) status = applyPhases(list, chip, tree);
  }
  if (status.ok()) status = packOperands(func, list, chip, &tree);
  if (status.ok()) status = checkEffects(list, tree);
  if (!status.ok()) return status;
  return list;
}

}  // namespace tessera::compiler::codegen
