#pragma once

#include "compiler/backends/cpu/phases.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Describes how each nest of a phase walks the grid and which bytes of operands and temporaries its loops touch
/// (KernelInfo.Walk), so that a run of a smaller size can skip the part of the grid that it does not need. Three kinds
/// of code always run whole and are not described: loops that write at addresses that are not linear in the loop
/// (panels); operations that are not nests; and the nests of a concurrent phase (Para), since each owns a part of the
/// grid points. If such nests write no operand, one walk without levels and touches says so.
void describeWalks(const Phase& phase, const PhaseList& list, v1::KernelInfo::Phase& described);

}  // namespace tessera::compiler::codegen
