#pragma once

#include <cstdint>

#include "tessera/v1/tensor.pb.h"

namespace tessera {

/// Size in bytes of one element of a dense tensor. Returns 1 for bool and for unknown types.
int64_t elementBytes(v1::DataType type);

}  // namespace tessera
