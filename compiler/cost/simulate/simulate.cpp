#include "compiler/cost/simulate/simulate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/cost/limits.h"
#include "compiler/cost/simulate/execution.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::cost {
namespace {

struct Extent {
  double steps = 0;     ///< of all leaves, those of spatial loops at once
  double accesses = 0;  ///< of operands by all instructions
};

Extent extentOf(const BoundTree& tree) {
  Extent all;
  for (size_t s = 0; s < tree.statements.size(); ++s) {
    const StatementView& view = tree.statements[s];
    double steps = 1, units = 1, operands = 0;
    for (const BoundLoop& loop : view.loops) (loop.spatial ? units : steps) *= static_cast<double>(loop.count);
    for (const BoundAccess& access : tree.accesses[s]) {
      double words = 1;
      for (size_t loop = 0; loop < view.runs.size(); ++loop)
        if (access.access->uses(static_cast<int>(loop))) words *= static_cast<double>(view.extents.back()[loop]);
      operands += words;
    }
    all.steps += steps;
    all.accesses += steps * units * operands;
  }
  return all;
}

double lastEnd(const TaskGraph& graph) {
  double last = 0;
  for (const double end : runTasks(graph)) last = std::max(last, end);
  return last;
}

}  // namespace

absl::StatusOr<DataflowCost> simulateDataflow(const loopnest::Nest& nest, const v1::Schedule& tree,
                                              const Machine& machine) {
  TESSERA_ASSIGN_OR_RETURN(const BoundTree bound, bindTree(nest, tree, machine));
  const Extent extent = extentOf(bound);
  if (extent.accesses > kMaxSimulatedAccesses || extent.steps > kMaxSimulatedSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("loop nest '", nest.name, "': a simulation of this tree has ", extent.steps, " steps and ",
                     extent.accesses, " accesses of elements, at most ", kMaxSimulatedSteps, " and ",
                     kMaxSimulatedAccesses, " are accepted; use smaller extents, or the analysis without simulation"));
  }
  Execution execution(nest, bound, machine);
  DataflowCost cost = execution.run();
  cost.cycles = lastEnd(execution.tasks());
  TaskGraph at_once = execution.tasks();
  for (Task& task : at_once.tasks) task.read_port = task.write_port = -1;
  cost.compute_cycles = lastEnd(at_once);
  cost.violations = exceededLimits(cost, execution.unitsOfKinds(), machine);
  return cost;
}

}  // namespace tessera::compiler::cost
