#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/spatial.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::spatial {

/// The workload of a unit as loop nests over buffers, without a schedule: operands first, then temporaries. Every
/// tensor operation becomes one nest; views become offsets and strides. Deterministic. Errors: UNSUPPORTED_OPERATOR
/// naming the operation that no nest expresses; INTERNAL if the workload's IR is malformed.
absl::StatusOr<v1::SpatialKernel> kernelOf(const v1::BuildUnit& unit);

/// kernelOf() with the unit's schedule, which is not checked.
absl::StatusOr<v1::SpatialKernel> scheduledKernelOf(const v1::BuildUnit& unit);

/// The chip of a unit. Messages about a unit name its workload, not its chip.
v1::Target targetOf(const v1::BuildUnit& unit);

}  // namespace tessera::compiler::spatial
