#pragma once

#include <vector>

#include "compiler/graph/layout/layout_graph.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Explains the conflicts of an assignment to people. For each transform: its cost, and the extra cost of the cheapest
/// assignment without it. For each anchor without its preferred layout: the cost of that, and the extra cost of the
/// cheapest assignment with the preferred layout.
std::vector<v1::Decision> explainLayouts(const LayoutGraph& graph, const Labelling& labelling);

}  // namespace tessera::compiler
