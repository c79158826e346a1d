#pragma once

#include <vector>

#include "compiler/graph/layout/layout_graph.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// The conflicts of an assignment and what was done about them, for people. A transform that was paid: its price, and
/// what the cheapest assignment without it would have cost more. An anchor that does not have the layout it likes
/// best: what it pays for that, and what the cheapest assignment in which it has it would have cost more.
std::vector<v1::Decision> explainLayouts(const LayoutGraph& graph, const Labelling& labelling);

}  // namespace tessera::compiler
