#pragma once

#include "compiler/codegen/phases.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Describes how each nest of a phase walks the grid and which bytes of operands and temporaries its loops touch
/// (KernelInfo.Walk), so that a run of a smaller size can skip the part of the grid that it does not need. Describes
/// nothing for a loop that writes at places that are not a linear function of the loop (panels), for operations that
/// are not nests, and for nests of a concurrent phase, each of which owns part of the grid points (Para): these always
/// run whole. If such nests write no operand, one walk without levels and touches says so.
void describeWalks(const Phase& phase, const PhaseList& list, v1::KernelInfo::Phase& described);

}  // namespace tessera::compiler::codegen
