#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/opencl.pb.h"

namespace tessera::compiler::opencl {

/// Compiles a kernel with its source and runs it once on the first device (firstDevice()), on the bytes of its
/// arguments; returns those of its results. Errors: as OpenClSession::create(); OUT_OF_RANGE for an index outside of
/// its buffer.
absl::StatusOr<std::vector<std::string>> runKernel(const v1::OpenClKernel& kernel,
                                                   const std::vector<std::string>& arguments);

}  // namespace tessera::compiler::opencl
