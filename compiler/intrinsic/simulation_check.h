#pragma once

#include <string>

#include "compiler/intrinsic/matching.h"

/// A second check of a mapping that shares no code with verify.h: runs both programs.
namespace tessera::compiler::intrinsic {

enum class Agreement {
  kEqual,    ///< the program of calls and copies computes the same as the operator's loops
  kDiffers,  ///< it does not
  /// equal, but neighbouring positions of an operand's block hold the same element, so a copy duplicates it; a transfer
  /// statement (definition 4) moves each element to one position only
  kReplicates,
  kIdle,       ///< equal, but an iteration of the instruction has no loop and computes only padding
  kCannotRun,  ///< physicalMapping or programOf fail
};

struct Simulated {
  Agreement agreement = Agreement::kCannotRun;
  std::string what;  ///< the element, loop, iteration or error
};

/// Runs the operator's loops and the mapped program on random tensors from `seed`. Loops of one point hide errors: use
/// extents of two or more. Algorithm 4 refuses mappings of the kinds kReplicates and kIdle although their values are
/// right.
Simulated simulate(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching, uint64_t seed);

}  // namespace tessera::compiler::intrinsic
