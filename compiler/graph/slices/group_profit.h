#pragma once

#include <vector>

#include "compiler/fusion/profit.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

v1::FusionProfit profitMessage(const std::string& pair, const fusion::Profit& profit);

/// Evaluates equation 4.10 for groups that become one: `nodes` of regionGraphOf(), each except the last one feeding
/// another.
v1::FusionProfit profitOfOne(const fusion::RegionGraph& graph, const std::vector<int>& nodes,
                             const fusion::PeakMachine& machine);

}  // namespace tessera::compiler
