#include "compiler/backends/cpu/decide/decide.h"

#include "compiler/backends/cpu/decide/chain.h"
#include "compiler/backends/cpu/decide/decide_nest.h"
#include "compiler/backends/cpu/decide/fusion.h"
#include "compiler/backends/cpu/emit/sequential.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

mlir::OpBuilder builderIn(mlir::func::FuncOp func) { return mlir::OpBuilder::atBlockBegin(&func.getBody().front()); }

v1::Tile sequentialLeaf() {
  v1::Tile leaf;
  leaf.mutable_kernel()->set_variant(std::string(words::kSequential));
  return leaf;
}

/// Adds the phase of nests, after a phase that copies their operands to panels if there are any.
void addPhase(mlir::OpBuilder& builder, const Phase& phase, const Chip& chip, const ScheduleRequest& request,
              v1::Schedule& schedule) {
  if (!phase.loops.empty()) {
    *schedule.add_phases() = sequentialLeaf();
    return;
  }
  std::vector<v1::Tile> copies, leaves;
  for (auto [n, nest] : llvm::enumerate(phase.nests))
    leaves.push_back(decideNest(builder, nest, phase.first + static_cast<int>(n), chip, request, copies));
  if (!copies.empty()) *schedule.add_phases() = phaseOf(std::move(copies));
  *schedule.add_phases() = phaseOf(std::move(leaves));
}

}  // namespace

absl::StatusOr<v1::Schedule> decideSchedule(const WorkloadAnalysis& workload, const Chip& chip,
                                            const ScheduleRequest& request) {
  v1::Schedule schedule;
  schedule.set_vector_bits(chip.vectorBits());
  std::vector<WorkItem> items = workload.items;
  decideFusion(items, chip.vectorRegisters());
  PhaseList list = phasesOf(items, largestPhases(items));
  const bool shares = phasesShareValues(list), sliced = request.slices.order_size() > 0;
  if (shares && sliced)
    return refuseChain("a loop nest uses a value that another operation loads", "a scalar read outside of loops",
                       "structured operations (linalg)");
  if (shares) {
    *schedule.add_phases() = sequentialLeaf();
    return schedule;
  }
  for (const llvm::SmallVector<int>& operations : fusedOperations(items))
    schedule.add_fused()->mutable_operations()->Assign(operations.begin(), operations.end());
  // Before loops are merged: slices need the loops of the original dimensions.
  std::optional<std::vector<v1::Tile>> region;
  if (sliced) {
    TESSERA_ASSIGN_OR_RETURN(region, decideChain(workload.func, list, chip, request.slices));
  } else if (!request.scalar && request.row_regions) {
    region = decideRowRegion(workload.func, list, chip);
  }
  if (region) {
    schedule.mutable_phases()->Assign(region->begin(), region->end());
    return schedule;
  }
  mlir::OpBuilder builder = builderIn(workload.func);
  for (const Phase& phase : list.phases) addPhase(builder, phase, chip, request, schedule);
  return schedule;
}

PhaseList decideNests(const WorkloadAnalysis& workload, const Chip& chip) {
  std::vector<WorkItem> items = workload.items;
  decideFusion(items, chip.vectorRegisters());
  PhaseList list = phasesOf(items, largestPhases(items));
  mlir::OpBuilder builder = builderIn(workload.func);
  for (Phase& phase : list.phases)
    for (Nest& nest : phase.nests) {
      mergeLoops(nest);
      rewriteForInstruction(builder, nest, chip);
    }
  return list;
}

}  // namespace tessera::compiler::codegen
