#pragma once

#include <cstdint>

#include "tessera/v1/spatial.pb.h"

namespace tessera::compiler {

/// Bytes of a buffer of a kernel; -1 if an extent is negative or the size overflows.
int64_t bufferBytes(const v1::SpatialKernel::Buffer& buffer);

}  // namespace tessera::compiler
