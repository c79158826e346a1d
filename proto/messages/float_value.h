#pragma once

#include "tessera/v1/tensor.pb.h"

namespace tessera {

/// The element at `from`, little-endian and of any alignment, of a tensor of f64, f32, f16 or bf16. Exact; NaN and
/// infinities stay what they are. Other types are read as f32.
double floatValue(v1::DataType type, const char* from);

}  // namespace tessera
