#pragma once

#include "compiler/simulator/program.h"

namespace tessera::compiler::simulator {

/// How a tiling becomes a program.
struct Manner {
  /// All sums inside of all other loops, so that a result's tile is the innermost one; else sums of each level inside
  /// of that level's other loops, so that tiles of sources are read more often.
  bool sums_inside = false;
  /// Tiles shrink until every buffer that is filled again has a second copy; else a second copy is what fits.
  bool overlap = false;
};

/// The program of a mapping with its tiling, made smaller where it does not fit. FAILED_PRECONDITION that names
/// the memory and the operand where not even single blocks do, or what the operator or the instruction asks for that no
/// program has. Takes a description that validateTarget accepts.
absl::StatusOr<Program> lower(intrinsic::Choice choice, const v1::Target& target, const Manner& manner = {});

}  // namespace tessera::compiler::simulator
