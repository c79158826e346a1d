#pragma once

#include "tessera/v1/tensor.pb.h"

namespace tessera {

/// Returns the element at `from` of a tensor of f64, f32, f16 or bf16. The bytes are little-endian and may be
/// unaligned. The conversion is exact and preserves NaN and infinities. Other types are read as f32.
double floatValue(v1::DataType type, const char* from);

}  // namespace tessera
