#pragma once

#include <span>

#include "absl/status/status.h"
#include "compiler/backends/spatial/spatial_nest.h"

namespace tessera::compiler::simulator {

/// Runs a nest on the bytes of its kernel's buffers, element by element, with the result of running all points in
/// order. Parallel loops run in strips, inside of them the other loops: that changes the order of points which do not
/// depend on each other alone. Fails with OUT_OF_RANGE naming the nest for a load outside of its buffer.
absl::Status runNest(const CheckedKernel& kernel, const SpatialNest& nest, std::span<uint8_t* const> buffers);

}  // namespace tessera::compiler::simulator
