#pragma once

#include "tessera/v1/tensor.pb.h"

/// Short names of the element types that most lowerings emit.
namespace tessera::compiler {

inline constexpr v1::DataType kF32 = v1::DATA_TYPE_F32, kF64 = v1::DATA_TYPE_F64;
inline constexpr v1::DataType kI32 = v1::DATA_TYPE_I32, kI64 = v1::DATA_TYPE_I64;

}  // namespace tessera::compiler
