#pragma once

#include "compiler/ptx/plan.h"

namespace tessera::compiler::ptx {

/// What a kernel takes, by the description alone. Blocks that a core holds at once, by registers, threads and the
/// shared level, share its units: a stage of all of them takes as long as the busiest of tensor units, shared level,
/// next level and instructions, or as one block's own chain of barrier, fetches, arithmetic and the copies that have to
/// have arrived, whichever is longer. Lines that a copy reads and drops count, what lies outside of the operator does
/// not.
double estimatedCycles(const Plan& plan, const v1::Target& target, const v1::Prices::Threads& prices);

}  // namespace tessera::compiler::ptx
