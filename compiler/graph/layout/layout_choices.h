#pragma once

#include <string>
#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/graph/layout/layout_graph.h"

namespace tessera::compiler {

/// An anchor (an operation with preferred layouts), as pins and plans name it.
struct AnchorLayouts {
  const LayoutNode* node = nullptr;
  std::string place;
  std::string pinned;  ///< "NCHW NCHW16c", one for each activation; empty: not pinned
};
std::vector<AnchorLayouts> anchorsOf(const LayoutGraph& graph, GraphChoices& choices);

/// Returns the labelling problem of the graph with pinned activations restricted to their layouts. Refuses a pin that
/// names an unavailable layout, listing the available ones. Makes `starts` agree with the pins.
LabellingProblem pinLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph,
                            std::vector<std::vector<int>>& starts, GraphChoices& choices);

/// Refuses pins that can each be met, but not together.
void refuseTogether(const std::vector<AnchorLayouts>& anchors, GraphChoices& choices);

/// Records the layouts of all anchors as choices. `error` is the relative error of an operation's cost.
void recordLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph, const Labelling& labelling,
                   double error, GraphChoices& choices);

}  // namespace tessera::compiler
