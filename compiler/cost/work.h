#pragma once

#include <vector>

#include "compiler/cost/bound_tree.h"

namespace tessera::compiler::cost {

/// What one leaf computes over the whole run.
struct LeafWork {
  double operations = 0;  ///< over all units, repeated ones included
  double steps = 0;       ///< one after another
  double cycles = 0;      ///< of these steps: operations of one unit divided by its speed, at least 1
};

/// `flops` of one iteration; `operations_per_cycle` of one unit.
LeafWork workOf(const BoundTree& tree, const StatementView& view, double flops, double operations_per_cycle);

/// Steps of the first n loops around the statement, one after another, for n from 0 to all of them.
std::vector<double> stepsOf(const BoundTree& tree, const StatementView& view);

}  // namespace tessera::compiler::cost
