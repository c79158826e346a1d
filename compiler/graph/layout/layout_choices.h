#pragma once

#include <string>
#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/graph/layout/layout_graph.h"

namespace tessera::compiler {

/// An operation with a preference of its own, as pins and plans name it.
struct AnchorLayouts {
  const LayoutNode* node = nullptr;
  std::string place;
  std::string pinned;  ///< "NCHW NCHW16c", one for each activation; empty: free
};
std::vector<AnchorLayouts> anchorsOf(const LayoutGraph& graph, GraphChoices& choices);

/// The labelling problem of the graph in which pinned activations have their layout alone; a pin that names another one
/// is refused with the layouts that there are. `starts` are made to agree.
LabellingProblem pinLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph,
                            std::vector<std::vector<int>>& starts, GraphChoices& choices);

/// Pins of which each can be followed, but not all.
void refuseTogether(const std::vector<AnchorLayouts>& anchors, GraphChoices& choices);

/// `error`: share of an operation's price by which layouts may be priced wrong.
void recordLayouts(const std::vector<AnchorLayouts>& anchors, const LayoutGraph& graph, const Labelling& labelling,
                   double error, GraphChoices& choices);

}  // namespace tessera::compiler
