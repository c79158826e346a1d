#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/cost/dataflow.h"

namespace tessera::compiler::cost {

/// Capacities and numbers of instances and units of the chip that the dataflow exceeds, one sentence each. `units` in
/// use of each kind.
std::vector<std::string> exceededLimits(const DataflowCost& cost, const std::vector<int64_t>& units,
                                        const Machine& machine);

}  // namespace tessera::compiler::cost
