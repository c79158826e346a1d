#pragma once

#include <cstdint>
#include <string>

#include "mlir/IR/Types.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

/// Returns the stored type of an MLIR element type. Signless integers count as signed, index as 64 bits.
/// DATA_TYPE_UNSPECIFIED for types that are never stored.
v1::DataType dataTypeOf(mlir::Type type);

/// Returns the bytes of one element in a buffer; eight for an index.
int64_t bytesPerElement(mlir::Type element);

/// Returns the bytes of a tensor with static extents; 0 for other types.
int64_t tensorBytes(mlir::Type type);

/// Returns the spec of a ranked tensor type with static extents.
v1::TensorSpec specOf(const std::string& name, mlir::Type type);

}  // namespace tessera::compiler
