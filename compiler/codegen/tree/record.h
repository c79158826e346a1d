#pragma once

#include "compiler/codegen/phases.h"
#include "tessera/v1/schedule.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::codegen {

/// The tree of what has been decided: nests, phases, regions, plans. Complete: following it makes the same list.
v1::Schedule scheduleOf(const PhaseList& list, const Machine& machine,
                        const google::protobuf::RepeatedPtrField<v1::MemoryLevel>& memory);

/// The innermost level that holds `bytes`; without levels "".
std::string levelHolding(const google::protobuf::RepeatedPtrField<v1::MemoryLevel>& memory, int64_t bytes);

}  // namespace tessera::compiler::codegen
