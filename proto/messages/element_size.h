#pragma once

#include <cstdint>

#include "tessera/v1/tensor.pb.h"

namespace tessera {

/// Bytes of one element in a dense tensor; 1 for bool, and for types that name none.
int64_t elementBytes(v1::DataType type);

}  // namespace tessera
