#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tessera/v1/schedule.pb.h"

/// The printed form of tile trees: one tile per line, children indented by two blanks, TileFlow's notation for loops.
///
///   vectors 512
///   fused 1+2 4+5+6
///   L2 [d0:Sp(core)/1 d1:Sp(core)/64] Shar
///     stage strided nest 0.0 operand 0 strides 96 1
///     Shar
///       [i1:Tp/32 i0:Tp/14] outer-product nest 0 vectors i1 x16 tile i0:14,i1:32,r2:4 points i0,i1 sums r2
///         stage panels operand 1 along i1 order i1,r2
///
/// Trees of dataflows (compiler/cost/dataflow.h) have loops by the names of their nest, leaves "compute nest 0", and
/// "stage bypass A,B" for tensors (in Stage.order) that have no buffer at a tile's level.
namespace tessera::compiler {

/// Deterministic: equal trees print equally.
std::string printSchedule(const v1::Schedule& schedule);

/// One tile without its children.
std::string printTileLine(const v1::Tile& tile);

/// The position of a tree's text within a longer one, for lines and columns in errors.
struct TextPlace {
  int line = 1;    ///< of the first line
  int indent = 0;  ///< blanks before every line
};

/// Parses the output of printSchedule; blank lines and text after '#' are ignored. Does not check whether the tree is
/// valid for a workload. The text is untrusted. Fails with INVALID_SCHEDULE naming the line and the column, the text
/// found and the accepted syntax.
absl::StatusOr<v1::Schedule> parseSchedule(absl::string_view text, TextPlace place = {});

}  // namespace tessera::compiler
