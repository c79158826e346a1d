#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/messages/element_size.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler {

using Shape = std::vector<int64_t>;

/// Element types of less than a byte and 8-bit floats, in which models store weights. The importer computes in wider
/// types: only Cast, QuantizeLinear, DequantizeLinear and data movement accept them. An element takes a byte: the bits
/// of a float, the value of an integer. Outside the importer they are u8 or i8.
inline constexpr auto kF8E4M3FN = static_cast<v1::DataType>(v1::DataType_MAX + 1);
inline constexpr auto kF8E4M3FNUZ = static_cast<v1::DataType>(v1::DataType_MAX + 2);
inline constexpr auto kF8E5M2 = static_cast<v1::DataType>(v1::DataType_MAX + 3);
inline constexpr auto kF8E5M2FNUZ = static_cast<v1::DataType>(v1::DataType_MAX + 4);
inline constexpr auto kF8E8M0 = static_cast<v1::DataType>(v1::DataType_MAX + 5);  ///< a power of two, for scales
inline constexpr auto kF4E2M1 = static_cast<v1::DataType>(v1::DataType_MAX + 6);
inline constexpr auto kI4 = static_cast<v1::DataType>(v1::DataType_MAX + 7);
inline constexpr auto kU4 = static_cast<v1::DataType>(v1::DataType_MAX + 8);
inline constexpr auto kI2 = static_cast<v1::DataType>(v1::DataType_MAX + 9);
inline constexpr auto kU2 = static_cast<v1::DataType>(v1::DataType_MAX + 10);

bool isNarrow(v1::DataType type);        ///< one of the above
bool isNarrowFloat(v1::DataType type);   ///< one of the above that is a float
int64_t elementBits(v1::DataType type);  ///< in a file; 8 for bool
/// Returns the type of the bytes that hold a narrow type; any other type unchanged.
v1::DataType storageType(v1::DataType type);

/// Returns the element type of ONNX's number (TensorProto.DataType); nothing for strings, complex and unknown numbers.
std::optional<v1::DataType> elementType(int32_t onnx_type);

/// Returns ONNX's name of its element type: "FLOAT", "STRING", or the number.
std::string onnxTypeName(int32_t onnx_type);

/// Returns the failure for an element type that elementType() does not know: UNSUPPORTED_OPERATOR for ONNX's other
/// types, INVALID_MODEL for unknown numbers. `what` names the tensor, `attribute` the place of the type.
absl::Status elementTypeError(int32_t onnx_type, const std::string& what, const std::string& attribute);

/// Returns "f32", "u8", "bool", ...
std::string typeName(v1::DataType type);

bool isFloat(v1::DataType type);     ///< of 16 bits and more
bool isUnsigned(v1::DataType type);  ///< integers without sign; not bool
bool isInteger(v1::DataType type);   ///< signed or unsigned; not bool

/// Returns "2x3x4"; "scalar" for rank 0.
std::string shapeText(std::span<const int64_t> shape);

/// Returns the number of elements. Requires a shape that passed checkShape.
int64_t elementCount(std::span<const int64_t> shape);

/// Fails with LIMIT_EXCEEDED if a tensor of this shape is beyond the limits (limits.h), with INVALID_MODEL if a
/// dimension is negative. Computes in wide arithmetic that no shape can overflow. `what` names the tensor.
absl::Status checkShape(std::span<const int64_t> shape, v1::DataType type, const std::string& what);

}  // namespace tessera::compiler
