#pragma once

#include "compiler/codegen/phases.h"
#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::codegen {

/// The tile tree of all decisions in `list`: nests, phases, regions, plans. It is complete: following it reproduces
/// `list`.
v1::Schedule scheduleOf(const PhaseList& list, const Chip& chip);

}  // namespace tessera::compiler::codegen
