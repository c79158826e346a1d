#pragma once

#include "compiler/codegen/phases.h"
#include "tessera/v1/schedule.pb.h"

namespace tessera::compiler::codegen {

/// The tree of what has been decided: nests, phases, regions, plans. Complete: following it makes the same list.
v1::Schedule scheduleOf(const PhaseList& list, const Chip& chip);

}  // namespace tessera::compiler::codegen
