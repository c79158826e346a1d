#pragma once

#include <cstdint>

#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

/// Fills a tensor from a seed, identically on all machines: floating-point elements uniformly from [-1, 1), integers
/// from 0 to 7 (valid as small indices and as masks), booleans from 0 and 1.
void fillSeeded(v1::DataType dtype, uint64_t seed, void* data, int64_t bytes);

}  // namespace tessera::worker
