#pragma once

#include <utility>
#include <vector>

namespace tessera::client {

/// Boxes to draw and arrows between them. Arrows lead from lower to higher positions: the order is topological.
struct BoxGraph {
  struct Box {
    double width = 0, height = 0;
  };
  std::vector<Box> boxes;
  std::vector<std::pair<int, int>> arrows;
};

struct Point {
  double x = 0, y = 0;
};

struct Placement {
  std::vector<Point> centers;              ///< of the boxes
  std::vector<std::vector<Point>> routes;  ///< of the arrows, from box edge to box edge
  double width = 0, height = 0;
};

/// Places boxes in layers from top to bottom (Sugiyama, Tagawa and Toda, 1981): longest paths give the layers, long
/// arrows get a bend in each layer they cross, barycenter sweeps order the layers, and each layer is then moved as
/// close to its neighbours as the distances allow. Arrows that do not lead to a higher position are omitted (empty
/// route). All values in pixels; the upper left corner is (0, 0). Deterministic.
Placement placeLayers(const BoxGraph& graph);

}  // namespace tessera::client
