#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

/// Drawings of tile trees over the memories and units of a chip.
namespace tessera::client {

struct TreePicture {
  std::string title;
  v1::Schedule tree;
  std::vector<std::string> operators;  ///< names for the numbers at the leaves
};

/// A band of the drawing.
struct TreeBand {
  std::string level;   ///< as tiles name it; of units: empty
  std::string figure;  ///< capacity, bandwidth, number of instances
};

/// One drawing for each tree, one below the other, as a standalone SVG file. Tiles are boxes in the band of their
/// memory level, outermost first; the units are the last band, with one box for each leaf.
std::string treeSvg(const std::vector<TreePicture>& trees, const std::vector<TreeBand>& bands);

}  // namespace tessera::client
