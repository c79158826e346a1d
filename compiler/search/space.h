#pragma once

#include <string>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// One decision changed by one step (thesis, 4.3: neighbours lie along typed directions).
struct Direction {
  /// tile    iterations in the register tile along `dimension`; its loops, and panels of that width, follow
  /// block   steps of a loop in blocks around the tiles; made, scaled, or left out
  /// order   two neighbouring loops, points or sums change places
  /// bind    the outermost loop in time becomes spatial, or the innermost spatial one temporal
  /// fetch   what is asked for ahead
  /// stage   a copy to panels is left out
  /// slices  extent of a region's slices
  /// vectors half as wide vectors everywhere
  std::string kind;
  std::string path;       ///< of the tile, "0.2.1"
  std::string dimension;  ///< or what else the kind is about
  std::string change;     ///< "x2", "/2", "+1", ...

  /// What directions of different tiles have in common: what is learned of one is expected of others.
  std::string type() const { return kind + " " + dimension + " " + change; }
};

struct Neighbour {
  Direction direction;
  v1::Schedule schedule;
};

/// Trees one step from `schedule`, in a fixed order, each different from it. Extents of loops are not known here, so
/// some cannot be followed.
std::vector<Neighbour> neighboursOf(const v1::Schedule& schedule);

}  // namespace tessera::compiler::search
