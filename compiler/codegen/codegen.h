#pragma once

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Fills the empty fields of `unit.schedule` from the workload's access functions and the unit's register
/// file and memory levels. Deterministic.
absl::StatusOr<v1::Schedule> chooseSchedule(const v1::BuildUnit& unit);

/// Compiles one workload: bufferize into the caller's result buffers, split into phases, emit vector code,
/// lower to LLVM, emit a relocatable object. Every phase has the signature tessera_kernel_fn
/// (compiler/runtime/module_abi.h). Any workload over static shapes compiles; what the vector emitter does
/// not cover becomes plain loops and says so in Phase.strategy ("scalar-loops").
///
/// With `unit.schedule.chain` (contract: v1::ChainTiling) the workload is one phase over slices of its first
/// result, "region of 5 nests, 96 slices of 1x64x64"; intermediates lie in the thread's scratch. Errors:
/// INVALID_ARGUMENT that names the operation and the dimension when it cannot be cut so.
absl::StatusOr<v1::BuiltObject> buildObject(const v1::BuildUnit& unit);

}  // namespace tessera::compiler
