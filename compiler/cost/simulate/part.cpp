#include "compiler/cost/simulate/part.h"

#include <algorithm>

namespace tessera::compiler::cost {
Part partOf(const BoundTree& tree, int tile, int level) {
  int root = tile;
  while (level >= 0 && tree.nodes[static_cast<size_t>(root)].parent >= 0 &&
         tree.nodes[static_cast<size_t>(tree.nodes[static_cast<size_t>(root)].parent)].level <= level)
    root = tree.nodes[static_cast<size_t>(root)].parent;
  Part part;
  for (int child = root; tree.nodes[static_cast<size_t>(child)].parent >= 0;) {
    const int parent = tree.nodes[static_cast<size_t>(child)].parent;
    const BoundNode& node = tree.nodes[static_cast<size_t>(parent)];
    if (node.children.size() > 1 && (node.join == v1::Tile::PARA || node.join == v1::Tile::PIPE))
      part.push_back(static_cast<int>(std::ranges::find(node.children, child) - node.children.begin()));
    child = parent;
  }
  std::ranges::reverse(part);
  return part;
}

}  // namespace tessera::compiler::cost
