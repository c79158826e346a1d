#pragma once

#include <cstdint>
#include <string>

#include "mlir/IR/Types.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

/// The stored type of an MLIR element type; signless integers count as signed, index as 64 bits.
/// DATA_TYPE_UNSPECIFIED for types that are never stored.
v1::DataType dataTypeOf(mlir::Type type);

/// Bytes of one element in a buffer; an index takes eight.
int64_t bytesPerElement(mlir::Type element);

/// Bytes of a tensor with static extents in a buffer; 0 for what is no tensor.
int64_t tensorBytes(mlir::Type type);

/// A tensor of a ranked type with static extents.
v1::TensorSpec specOf(const std::string& name, mlir::Type type);

}  // namespace tessera::compiler
