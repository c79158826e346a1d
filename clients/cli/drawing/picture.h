#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/v1/analysis.pb.h"

/// Drawings of an explanation: the model's graph and the compiled graph side by side.
namespace tessera::client {

/// A standalone SVG drawing. Tooltips of boxes hold complete names.
std::string svgText(const v1::Explanation& explanation);

/// Text in Graphviz's language, one cluster for each graph.
std::string dotText(const v1::Explanation& explanation);

/// One graph of the drawing, with inputs and outputs as boxes; shared by both formats.
struct Panel {
  struct Box {
    std::vector<std::string> lines;  ///< the first line is bold
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

/// The graphs of an explanation; graphs without nodes are omitted.
std::vector<Panel> panelsOf(const v1::Explanation& explanation);

}  // namespace tessera::client
