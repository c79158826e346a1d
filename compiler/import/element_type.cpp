#include "compiler/import/element_type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {

std::optional<v1::DataType> elementType(int32_t onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT:
      return v1::DATA_TYPE_F32;
    case onnx::TensorProto::DOUBLE:
      return v1::DATA_TYPE_F64;
    case onnx::TensorProto::FLOAT16:
      return v1::DATA_TYPE_F16;
    case onnx::TensorProto::BFLOAT16:
      return v1::DATA_TYPE_BF16;
    case onnx::TensorProto::INT8:
      return v1::DATA_TYPE_I8;
    case onnx::TensorProto::INT16:
      return v1::DATA_TYPE_I16;
    case onnx::TensorProto::INT32:
      return v1::DATA_TYPE_I32;
    case onnx::TensorProto::INT64:
      return v1::DATA_TYPE_I64;
    case onnx::TensorProto::UINT8:
      return v1::DATA_TYPE_U8;
    case onnx::TensorProto::UINT16:
      return v1::DATA_TYPE_U16;
    case onnx::TensorProto::UINT32:
      return v1::DATA_TYPE_U32;
    case onnx::TensorProto::UINT64:
      return v1::DATA_TYPE_U64;
    case onnx::TensorProto::BOOL:
      return v1::DATA_TYPE_BOOL;
    case 17:  // numbers newer than the compiled schema
      return kF8E4M3FN;
    case 18:
      return kF8E4M3FNUZ;
    case 19:
      return kF8E5M2;
    case 20:
      return kF8E5M2FNUZ;
    case 21:
      return kU4;
    case 22:
      return kI4;
    case 23:
      return kF4E2M1;
    case 24:
      return kF8E8M0;
    case 25:
      return kU2;
    case 26:
      return kI2;
    default:
      return std::nullopt;
  }
}

bool isNarrow(v1::DataType type) { return type >= kF8E4M3FN && type <= kU2; }
bool isNarrowFloat(v1::DataType type) { return type >= kF8E4M3FN && type <= kF4E2M1; }

int64_t elementBits(v1::DataType type) {
  if (type == kF4E2M1 || type == kI4 || type == kU4) return 4;
  return type == kI2 || type == kU2 ? 2 : 8 * elementBytes(type);
}

v1::DataType storageType(v1::DataType type) {
  if (type == kI4 || type == kI2) return v1::DATA_TYPE_I8;
  return isNarrow(type) ? v1::DATA_TYPE_U8 : type;
}

std::string onnxTypeName(int32_t onnx_type) {
  if (!onnx::TensorProto::DataType_IsValid(onnx_type)) return absl::StrCat("number ", onnx_type);
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(onnx_type));
}

absl::Status elementTypeError(int32_t onnx_type, const std::string& what, const std::string& attribute) {
  const bool known = onnx::TensorProto::DataType_IsValid(onnx_type) && onnx_type != onnx::TensorProto::UNDEFINED;
  return fault(known ? v1::Failure::UNSUPPORTED_OPERATOR : v1::Failure::INVALID_MODEL,
               absl::StrCat(what, " has the element type ", onnxTypeName(onnx_type)),
               {.attribute = attribute,
                .found = onnxTypeName(onnx_type),
                .accepted = "floating point of 4 to 64 bits, integers of 2 to 64 bits, bool",
                .remedy = onnx_type == onnx::TensorProto::STRING
                              ? "convert text to numbers before the model, and remove that part from the model"
                              : ""});
}

std::string typeName(v1::DataType type) {
  static constexpr const char* kNames[] = {"unspecified", "f32",    "f64",      "f16",        "bf16",   "i8",
                                           "i16",         "i32",    "i64",      "u8",         "u16",    "u32",
                                           "u64",         "bool",   "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
                                           "f8e8m0",      "f4e2m1", "i4",       "u4",         "i2",     "u2"};
  return type >= 0 && type < static_cast<int>(std::size(kNames)) ? kNames[type] : absl::StrCat("type ", type);
}

bool isFloat(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16;
}

bool isUnsigned(v1::DataType type) {
  return type == v1::DATA_TYPE_U8 || type == v1::DATA_TYPE_U16 || type == v1::DATA_TYPE_U32 ||
         type == v1::DATA_TYPE_U64 || type == kU4 || type == kU2;
}

bool isInteger(v1::DataType type) { return !isFloat(type) && !isNarrowFloat(type) && type != v1::DATA_TYPE_BOOL; }

std::string shapeText(std::span<const int64_t> shape) { return shape.empty() ? "scalar" : absl::StrJoin(shape, "x"); }

int64_t elementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

absl::Status checkShape(std::span<const int64_t> shape, v1::DataType type, const std::string& what) {
  if (shape.size() > static_cast<size_t>(limits::kRank)) {
    return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat(what, " has rank ", shape.size()),
                 {.found = absl::StrCat("rank ", shape.size()),
                  .accepted = absl::StrCat("rank up to ", limits::kRank),
                  .remedy = "merge dimensions"});
  }
  __int128 count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) {
      return fault(v1::Failure::INVALID_MODEL,
                   absl::StrCat(what, " has the negative dimension ", dim, " in shape ", shapeText(shape)),
                   {.found = shapeText(shape), .accepted = "dimensions of 0 and more"});
    }
    empty |= dim == 0;
    // Stops at the limit: larger products need not be exact, and 16 dimensions of 2^63 cannot overflow.
    if (dim > 0 && count <= limits::kTensorElements) count *= dim;
  }
  if (empty) count = 0;
  if (count > limits::kTensorElements || count * elementBytes(type) > limits::kTensorBytes) {
    return fault(v1::Failure::LIMIT_EXCEEDED,
                 absl::StrCat(what, " claims the shape ", shapeText(shape), " of ", typeName(type)),
                 {.found = shapeText(shape),
                  .accepted = absl::StrCat("up to ", limits::kTensorElements, " elements and ", limits::kTensorBytes,
                                           " bytes in one tensor"),
                  .remedy = "check the model's shapes; reduce the batch"});
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
