#pragma once

#include <vector>

#include "compiler/cost/bound_tree.h"
#include "compiler/cost/machine.h"
#include "compiler/cost/movement.h"
#include "compiler/cost/work.h"

namespace tessera::compiler::cost {

struct Latency {
  double cycles = 0;
  double compute_cycles = 0;  ///< the same if transfers take no time
};

/// Equation 3.22 for each step of each tile, with buffers of two copies: while a tile makes one step, the slices of its
/// next step arrive and the results of its last one leave. `work` has one entry for each statement.
Latency latencyOf(const BoundTree& tree, const Machine& machine, const std::vector<Boundary>& boundaries,
                  const std::vector<LeafWork>& work);

}  // namespace tessera::compiler::cost
