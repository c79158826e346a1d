#pragma once

#include "compiler/backends/spatial/program.h"

namespace tessera::compiler::simulator {

/// Options for lowering a tiling to a program.
struct LoweringOptions {
  /// All reduction loops inside of all other loops, so that a result's tile is the innermost one; otherwise the
  /// reductions of each level are inside of that level's parallel loops, so that tiles of sources are read more often.
  bool reductions_innermost = false;
  /// Shrinks tiles until every buffer that is refilled has a second copy (double buffering); otherwise second copies
  /// are made only where they fit.
  bool overlap = false;
  /// Fails if the tiling does not fit, instead of shrinking tiles.
  bool exact = false;
};

/// Tensors that are parts of buffers.
struct LoweringTensors {
  std::vector<View> views = {};                     ///< see Program::views
  v1::DataType stored = v1::DATA_TYPE_UNSPECIFIED;  ///< of the result in its tensor; unspecified: the instruction's
  std::optional<Epilogue> epilogue = std::nullopt;  ///< runs on the results before they leave
};

/// Lowers a mapping with its tiling to a program; shrinks tiles that do not fit. The matching may be any, also one that
/// intrinsic::verify() refuses: the program of a wrong matching computes a wrong result, which check() detects. Fails
/// with FAILED_PRECONDITION, naming the memory and the operand, if not even single blocks fit, or naming what the
/// operator or the instruction needs that no program supports. `target` must pass validateTarget.
absl::StatusOr<Program> lower(intrinsic::Choice choice, const v1::Target& target, const LoweringOptions& manner = {},
                              const LoweringTensors& tensors = {});

}  // namespace tessera::compiler::simulator
