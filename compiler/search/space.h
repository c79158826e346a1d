#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::search {

/// One decision changed by one step (thesis, 4.3: neighbours lie along typed directions). Words and notation are those
/// of clients/docs/design/tile-tree.md and terms.md there.
struct Direction {
  /// Kind, its `subject` in parentheses, and an example in the printed form of the tree:
  /// - tile (loop): size of the register tile: `tile i0:14` to `tile i0:28`. Loops over tiles, and panels of that
  ///   width, follow.
  /// - pair (two loops, "i0 i1"): the tile grows along the first and shrinks along the second, the thesis's direction
  ///   (i, j): `tile i0:4,i1:32` to `tile i0:8,i1:16`.
  /// - block (loop): a block loop around the tiles or smaller blocks is added, scaled or removed: `[i0:Tp/14]` to
  ///   `[i0:Tp/56 i0:Tp/14]`.
  /// - order ("loops", "points", "sums"): two neighbours are exchanged: `sums r0,r1` to `sums r1,r0`.
  /// - bind ("core"): the outermost temporal loop becomes spatial, or the innermost spatial one temporal: `i1:Tp/32` to
  ///   `i1:Sp(core)/32`. ("children"): the nests of a phase run one after another on all units, or concurrently on
  ///   parts of the units: `Seq` to `Para`.
  /// - fetch ("ahead", "rows", "panel", "results", "copies"): a prefetch distance, or a prefetch switched on or off.
  ///   ("points"): interleaving of the points' operations.
  /// - stage (layout): removes a copy of an operand: the line `stage panels ...`.
  /// - slices (loop of a region): size of the slices: `[d1:Sp(core)/64]` to `[d1:Sp(core)/32]`. ("d1 parts"): size of
  ///   the parts; the slices of one part run one after another on one unit.
  /// - vectors ("bits"): half or twice as wide vectors everywhere: `vectors 512` to `vectors 256`.
  /// - lanes (loop): vectors along another parallel or reduction loop: `vectors i1 x16` to `vectors i0 x16`.
  /// - variant (the present kernel): another kernel for the nest, named by `change`.
  std::string kind;
  std::string path;  ///< of the tile, "0.2.1"; empty: the whole tree
  std::string subject;
  std::string change;  ///< "x2", "/2", "+1", ...

  /// The common name of such directions of different tiles: experience with one applies to the others.
  std::string type() const { return kind + " " + subject + " " + change; }

  /// The direction that undoes this step: "/2" for "x2", the pair (j, i) for (i, j). Its kind is empty if no direction
  /// is named so.
  Direction opposite() const;
};

struct Neighbour {
  Direction direction;
  v1::Schedule schedule;
  std::string text;  ///< the schedule, printed
};

/// Lengths of loops (numbers of iterations), by nest and name: "i0", "r2".
using Extents = std::map<std::pair<int, std::string>, int64_t>;

/// Trees one step from `schedule`, in a fixed order, each different from it. Tiles grow to the full length of a loop,
/// and to its next divisors, if `extents` has the length. Legality decides whether a tree is valid, as far as that is
/// possible without knowing the nests.
std::vector<Neighbour> neighboursOf(const v1::Schedule& schedule, const Extents& extents = {});

}  // namespace tessera::compiler::search
