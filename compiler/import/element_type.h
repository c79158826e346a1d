#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/element_size.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

using Shape = std::vector<int64_t>;

/// The element type of ONNX's number (TensorProto.DataType); nothing for strings, complex and unknown numbers.
std::optional<v1::DataType> elementType(int32_t onnx_type);

/// ONNX's name of its element type: "FLOAT", "STRING", or the number.
std::string onnxTypeName(int32_t onnx_type);

/// The failure for an element type that elementType does not know: UNSUPPORTED_OPERATOR for a type ONNX has,
/// INVALID_MODEL for a number it does not. `what` names the tensor, `attribute` where the type stands.
absl::Status elementTypeFault(int32_t onnx_type, const std::string& what, const std::string& attribute);

/// "f32", "u8", "bool", ...
std::string typeName(v1::DataType type);

bool isFloat(v1::DataType type);
bool isUnsigned(v1::DataType type);  ///< integers without sign; not bool
bool isInteger(v1::DataType type);   ///< signed or unsigned; not bool

/// "2x3x4"; "scalar" for rank 0.
std::string shapeText(std::span<const int64_t> shape);

/// Number of elements. Requires a shape that passed checkShape.
int64_t elementCount(std::span<const int64_t> shape);

/// LIMIT_EXCEEDED or INVALID_MODEL when a tensor of this shape is beyond the limits (limits.h) or has
/// negative dimensions. Wide arithmetic: no claim of a model can overflow it. `what` names the tensor.
absl::Status checkShape(std::span<const int64_t> shape, v1::DataType type, const std::string& what);

}  // namespace tessera::compiler
