#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/region/region.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/backends/cpu/work_items.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler::codegen {

/// The operand that a nest copies to panels: input `input` of nest `nest`.
struct PanelsOf {
  int nest = 0, input = 0;
};

/// The work between two barriers: nests, a region, or loops that are not structured operations (`loops`).
struct Phase {
  std::vector<Nest> nests;
  std::vector<TilePlan> plans;  ///< one per nest, see tiling/tile_plan.h
  int first = 0;                ///< number of the first of `nests` in the order of all phases
  /// If set, each point of the grid belongs to one nest, so that nests run on disjoint sets of cores (Para in the tile
  /// tree). Otherwise each core runs a part of every nest, one nest after another (Seq).
  bool concurrent = false;
  /// for a phase that copies operands to panels: one per nest; such nests have no numbers
  std::vector<PanelsOf> copies;
  std::string cut;               ///< if too few registers kept a consumer out of the nests: the reason, for reports
  std::optional<Region> region;  ///< nests that run slice by slice, instead of `nests`
  llvm::SmallVector<std::pair<mlir::Value, int64_t>>
      scratch;  ///< panels of blocks, byte offset in the thread's scratch
  int64_t scratch_bytes = 0;
  llvm::SmallVector<mlir::Operation*> loops;  ///< not linalg (scf, memref): one thread runs them, grid 1
};

/// A bufferized workload as a list of phases and a plan of its temporaries.
struct PhaseList {
  std::vector<Phase> phases;
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> temporaries;  ///< allocation, byte offset in the workspace
  int64_t workspace_bytes = 0;
};

/// Items of each phase, in program order.
using ItemGroups = std::vector<llvm::SmallVector<int>>;

/// As few phases as the dependences between the items allow.
ItemGroups largestPhases(llvm::ArrayRef<WorkItem> items);

/// The operations of each item that consists of several.
std::vector<llvm::SmallVector<int>> fusedOperations(llvm::ArrayRef<WorkItem> items);

/// The phases of completed items, without plans.
PhaseList phasesOf(llvm::ArrayRef<WorkItem> items, const ItemGroups& groups);

}  // namespace tessera::compiler::codegen
