#include "compiler/import/element_type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/fault.h"
#include "compiler/import/limits.h"
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
    default:
      return std::nullopt;
  }
}

std::string onnxTypeName(int32_t onnx_type) {
  if (!onnx::TensorProto::DataType_IsValid(onnx_type)) return absl::StrCat("number ", onnx_type);
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(onnx_type));
}

absl::Status elementTypeFault(int32_t onnx_type, const std::string& what, const std::string& attribute) {
  const bool known = onnx::TensorProto::DataType_IsValid(onnx_type) && onnx_type != onnx::TensorProto::UNDEFINED;
  return fault(known ? v1::Failure::UNSUPPORTED_OPERATOR : v1::Failure::INVALID_MODEL,
               absl::StrCat(what, " has the element type ", onnxTypeName(onnx_type)),
               {.attribute = attribute,
                .found = onnxTypeName(onnx_type),
                .accepted = "floating point, integers of 8 to 64 bits, bool"});
}

std::string typeName(v1::DataType type) {
  static constexpr const char* kNames[] = {"unspecified", "f32", "f64", "f16", "bf16", "i8",  "i16",
                                           "i32",         "i64", "u8",  "u16", "u32",  "u64", "bool"};
  return type >= 0 && type < static_cast<int>(std::size(kNames)) ? kNames[type] : absl::StrCat("type ", type);
}

bool isFloat(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16;
}

bool isUnsigned(v1::DataType type) {
  return type == v1::DATA_TYPE_U8 || type == v1::DATA_TYPE_U16 || type == v1::DATA_TYPE_U32 ||
         type == v1::DATA_TYPE_U64;
}

bool isInteger(v1::DataType type) { return !isFloat(type) && type != v1::DATA_TYPE_BOOL; }

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
                  .fix = "merge dimensions"});
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
    // Saturates: beyond the limit the exact product does not matter, and 16 dims of 2^63 cannot overflow.
    if (dim > 0 && count <= limits::kTensorElements) count *= dim;
  }
  if (empty) count = 0;
  if (count > limits::kTensorElements || count * elementBytes(type) > limits::kTensorBytes) {
    return fault(v1::Failure::LIMIT_EXCEEDED,
                 absl::StrCat(what, " claims the shape ", shapeText(shape), " of ", typeName(type)),
                 {.found = shapeText(shape),
                  .accepted = absl::StrCat("up to ", limits::kTensorElements, " elements and ", limits::kTensorBytes,
                                           " bytes in one tensor"),
                  .fix = "check the model's shapes; reduce the batch"});
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
