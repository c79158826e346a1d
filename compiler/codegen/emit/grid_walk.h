#pragma once

#include "compiler/codegen/phases.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// Says how each nest of a phase walks the grid and which bytes of operands and temporaries its loops touch
/// (KernelInfo.Walk), so that a run can leave out the part that it does not need. Says nothing where a loop writes what
/// is no linear function of it (panels), of operations that are kept as they are, and of nests that each have cells of
/// their own (Para): these run whole. Where such nests write no operand, one walk without levels and touches says so.
void describeWalks(const Phase& phase, const PhaseList& list, v1::KernelInfo::Phase& described);

}  // namespace tessera::compiler::codegen
