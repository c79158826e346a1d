#pragma once

#include <string>
#include <vector>

#include "compiler/backends/spatial/dataflow_problem.h"
#include "compiler/backends/spatial/session.h"

namespace tessera::compiler::simulator {

/// A fused group of an artifact, or a chain of fused groups: the problem of one search.
struct DataflowGroup {
  std::string title;       ///< of a group: names of its nodes; of a chain: names of its parts
  std::vector<int> steps;  ///< positions in Plan.steps; the first one of equal groups
  int runs = 1;            ///< number of equal groups, this one included
  v1::Schedule compiled;   ///< the schedule of a single group; empty for a chain
  double cycles = 0;       ///< simulated, of the steps one after another
  absl::StatusOr<DataflowProblem> problem = absl::UnknownError("");
};

/// The fused groups of the artifact's plan, equal ones once. Then the chains: steps from one product to the next one,
/// each of which reads a result of the steps before that no other step reads. A tree for a chain would fuse them. Fails
/// if a kernel is not valid.
absl::StatusOr<std::vector<DataflowGroup>> dataflowGroupsOf(const SimulatedArtifact& artifact,
                                                            const cost::Machine& machine);

/// Why no program has the form of the tree. Empty: like programs, it has at most one product in each phase and one nest
/// that follows it; orders of loops and tiles may still differ.
std::string obstacleOf(const v1::Schedule& tree, const DataflowProblem& problem);

}  // namespace tessera::compiler::simulator
