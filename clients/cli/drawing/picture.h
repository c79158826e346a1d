#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/v1/analysis.pb.h"

/// Pictures of an explanation: the model's graph and what it became, side by side.
namespace tessera::client {

/// As SVG, placed here: any browser shows it. Names in full are the boxes' tooltips.
std::string svgText(const v1::Explanation& explanation);

/// In Graphviz's language, one cluster for each graph.
std::string dotText(const v1::Explanation& explanation);

/// One graph of the picture, inputs and outputs as boxes of their own; what both forms draw.
struct Panel {
  struct Box {
    std::vector<std::string> lines;  ///< the first one in bold
    std::string tooltip;
    std::string color;
    bool border = false;  ///< an input or output of the graph
  };
  struct Arrow {
    int from = 0, to = 0;
    std::string label;
  };
  std::string title;
  std::vector<Box> boxes;  ///< producers before consumers
  std::vector<Arrow> arrows;
};

/// The panels of an explanation; graphs without nodes are left out.
std::vector<Panel> panelsOf(const v1::Explanation& explanation);

}  // namespace tessera::client
