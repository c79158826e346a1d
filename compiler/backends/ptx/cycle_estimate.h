#pragma once

#include "compiler/backends/ptx/plan.h"

namespace tessera::compiler::ptx {

/// Estimates the time of a kernel from the description alone. The blocks resident on a core (limited by registers,
/// threads and shared memory) share its units. A stage of all resident blocks takes the maximum of two times: the
/// busiest of tensor units, shared memory, next level and instruction issue; and one block's own dependency chain of
/// barrier, loads, arithmetic and the copies it waits for. Lines that a copy reads only in part count whole; padding
/// outside of the operator does not count.
double estimatedCycles(const Plan& plan, const v1::Target& target, const v1::CostParameters::Threads& parameters);

}  // namespace tessera::compiler::ptx
