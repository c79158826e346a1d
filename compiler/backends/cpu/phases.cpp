#include "compiler/backends/cpu/phases.h"

namespace tessera::compiler::codegen {

ItemGroups largestPhases(llvm::ArrayRef<WorkItem> items) {
  ItemGroups groups;
  for (int i = 0; i < static_cast<int>(items.size()); ++i) {
    if (items[i].removed) continue;
    if (groups.empty() || !mayShareAPhase(items, groups.back(), i)) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

std::vector<llvm::SmallVector<int>> fusedOperations(llvm::ArrayRef<WorkItem> items) {
  std::vector<llvm::SmallVector<int>> fused;
  for (const WorkItem& item : items)
    if (!item.removed && item.operations.size() > 1) fused.push_back(item.operations);
  return fused;
}

PhaseList phasesOf(llvm::ArrayRef<WorkItem> items, const ItemGroups& groups) {
  PhaseList list;
  int numbered = 0;
  for (const llvm::SmallVector<int>& group : groups) {
    Phase& phase = list.phases.emplace_back();
    phase.first = numbered;
    for (int i : group) {
      const WorkItem& item = items[i];
      if (!item.nest) {
        phase.loops.push_back(item.op);
        continue;
      }
      for (Nest& nest : item.nests()) phase.nests.push_back(std::move(nest));
      if (item.disjoint_from < 0 && !item.cut.empty()) phase.cut = item.cut;
    }
    // Trees count nests over all phases: `first` is the number of the phase's first one.
    numbered += static_cast<int>(phase.nests.size());
  }
  return list;
}

}  // namespace tessera::compiler::codegen
