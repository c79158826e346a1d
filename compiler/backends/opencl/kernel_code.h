#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tessera/v1/opencl.pb.h"
#include "tessera/v1/spatial.pb.h"
#include "tessera/v1/target.pb.h"

/// Kernels of OpenCL devices: loop nests with a schedule, as OpenCL C. No MLIR.
namespace tessera::compiler::opencl {

/// Sets kernel.schedule: how the work-groups of the device run each nest. `scalar`: one work-item for each result, for
/// products as well. Deterministic.
absl::Status scheduleKernel(v1::SpatialKernel& kernel, const v1::Target& target, bool scalar);

/// The functions and launches of a kernel with exactly its schedule. Equal kernels give equal text. Errors:
/// INVALID_SCHEDULE with the path of the tile at fault; INVALID_ARGUMENT naming a malformed nest.
absl::StatusOr<v1::OpenClKernel> writeKernel(const v1::SpatialKernel& kernel, const v1::Target& target);

}  // namespace tessera::compiler::opencl
