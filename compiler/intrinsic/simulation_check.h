#pragma once

#include <string>

#include "compiler/intrinsic/matching.h"

/// A second opinion on a mapping, that shares no code with verify.h: both programs are run.
namespace tessera::compiler::intrinsic {

enum class Agreement {
  kEqual,       ///< the program of calls and copies computes what the operator's loops do
  kDiffers,     ///< it does not
  kReplicates,  ///< equal, but a copy along one loop brings the same element twice: statements of definition 4 move
  kIdle,        ///< equal, but an iteration of the instruction has no loop: it computes padding only
  kCannotRun,   ///< physicalMapping or programOf refuse
};

struct Simulated {
  Agreement agreement = Agreement::kCannotRun;
  std::string what;  ///< the element, loop, iteration or refusal
};

/// Runs the operator's loops and the mapped program on tensors drawn from `seed`. Loops of one point hide mistakes:
/// give extents of two or more. The last two kinds are what algorithm 4 refuses although values are right.
Simulated simulate(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching, uint64_t seed);

}  // namespace tessera::compiler::intrinsic
