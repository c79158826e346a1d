#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// One decision changed by one step (thesis, 4.3: neighbours lie along typed directions).
struct Direction {
  /// tile    iterations in the register tile along `dimension`; its loops, and panels of that width, follow
  /// pair    the thesis's direction (i, j): the tile grows along the first of two loops and shrinks along the second
  /// block   steps of a loop in blocks around the tiles, or around smaller blocks; made, scaled, or left out
  /// order   two neighbouring loops, points or sums change places
  /// bind    the outermost loop in time becomes spatial, or the innermost spatial one temporal; nests of a phase run
  ///         side by side on parts of the units, or one after another on all
  /// fetch   what is prefetched, of copies within blocks too; whether operations of points are interleaved
  /// stage   a copy to panels is left out
  /// slices  extent of a region's slices, and of the parts in which they follow each other
  /// vectors half or twice as wide vectors everywhere
  /// lanes   vectors go along another loop, one that stays or one that sums
  /// variant another kernel for the nest
  std::string kind;
  std::string path;       ///< of the tile, "0.2.1"
  std::string dimension;  ///< or what else the kind is about
  std::string change;     ///< "x2", "/2", "+1", ...

  /// What directions of different tiles have in common: what is learned of one is expected of others.
  std::string type() const { return kind + " " + dimension + " " + change; }

  /// The direction that takes this step back: "/2" for "x2", the pair (j, i) for (i, j). Without a kind where none is
  /// told by its name.
  Direction opposite() const;
};

struct Neighbour {
  Direction direction;
  v1::Schedule schedule;
  std::string text;  ///< the schedule, printed
};

/// Extents of loops by nest and name: "i0", "r2".
using Extents = std::map<std::pair<int, std::string>, int64_t>;

/// Trees one step from `schedule`, in a fixed order, each different from it. Where `extents` says how long a loop is,
/// tiles grow to all of it, and to its next divisors. Whether a tree can be followed is Legality's to say, as far as
/// anybody can who does not know the nests.
std::vector<Neighbour> neighboursOf(const v1::Schedule& schedule, const Extents& extents = {});

}  // namespace tessera::compiler::search
