// Reads TensorProto: locates its bytes (raw_data, a typed field, an external file) and checks that there are exactly as
// many as its shape needs.
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/constant.h"
#include "compiler/import/model_error.h"
#include "compiler/import/model_file.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

std::string label(const onnx::TensorProto& proto) { return absl::StrCat("tensor '", printable(proto.name()), "'"); }

absl::Status wrongLength(const onnx::TensorProto& proto, const Constant& shape, const std::string& field,
                         const std::string& found, const std::string& accepted) {
  return fault(v1::Failure::INVALID_MODEL,
               absl::StrCat(label(proto), ": ", field, " has ", found, ", but its shape ", shapeText(shape.shape),
                            " of ", typeName(shape.dtype), " needs ", accepted),
               {.attribute = absl::StrCat(printable(proto.name()), ".", field), .found = found, .accepted = accepted});
}

/// Appends each value as a little-endian T; false if one does not fit T.
template <typename T, typename Field>
bool narrow(const Field& field, std::string& bytes) {
  bytes.reserve(field.size() * sizeof(T));
  for (auto value : field) {
    const auto element = static_cast<T>(value);
    if (static_cast<decltype(value)>(element) != value) return false;
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(T));
  }
  return true;
}

struct TypedField {
  const char* name;
  int64_t count;
  bool (*read)(const onnx::TensorProto&, std::string&);
};

template <typename T>
bool readInt32(const onnx::TensorProto& proto, std::string& bytes) {
  return narrow<T>(proto.int32_data(), bytes);
}

/// Returns the bytes in a file: elements of less than a byte are packed, the first in the lowest bits.
int64_t storedBytes(int64_t elements, v1::DataType type) { return (elements * elementBits(type) + 7) / 8; }

/// Unpacks to one byte per element.
ConstantPtr unpacked(const Constant& packed) {
  const int64_t bits = elementBits(packed.dtype), count = packed.elements();
  if (bits >= 8) return std::make_shared<const Constant>(packed);
  std::string bytes(count, '\0');
  for (int64_t i = 0; i < count; ++i) {
    const auto raised =
        static_cast<uint8_t>(static_cast<uint8_t>(packed.bytes[i * bits / 8]) >> (i * bits % 8) << (8 - bits));
    const bool is_signed = storageType(packed.dtype) == v1::DATA_TYPE_I8;
    bytes[i] = static_cast<char>(is_signed ? static_cast<int8_t>(raised) >> (8 - bits) : raised >> (8 - bits));
  }
  return makeConstant(packed.dtype, packed.shape, std::move(bytes));
}

/// Returns the field that holds the elements of a type, by onnx.proto.
TypedField typedField(const onnx::TensorProto& proto, v1::DataType dtype) {
  if (isNarrow(dtype)) return {"int32_data", proto.int32_data_size(), readInt32<uint8_t>};
  switch (dtype) {
    case v1::DATA_TYPE_F32:
      return {"float_data", proto.float_data_size(), [](const onnx::TensorProto& p, std::string& bytes) {
                bytes.assign(reinterpret_cast<const char*>(p.float_data().data()), p.float_data_size() * sizeof(float));
                return true;
              }};
    case v1::DATA_TYPE_F64:
      return {"double_data", proto.double_data_size(), [](const onnx::TensorProto& p, std::string& bytes) {
                bytes.assign(reinterpret_cast<const char*>(p.double_data().data()),
                             p.double_data_size() * sizeof(double));
                return true;
              }};
    case v1::DATA_TYPE_I64:
      return {"int64_data", proto.int64_data_size(),
              [](const onnx::TensorProto& p, std::string& bytes) { return narrow<int64_t>(p.int64_data(), bytes); }};
    case v1::DATA_TYPE_U64:
      return {"uint64_data", proto.uint64_data_size(),
              [](const onnx::TensorProto& p, std::string& bytes) { return narrow<uint64_t>(p.uint64_data(), bytes); }};
    case v1::DATA_TYPE_U32:
      return {"uint64_data", proto.uint64_data_size(),
              [](const onnx::TensorProto& p, std::string& bytes) { return narrow<uint32_t>(p.uint64_data(), bytes); }};
    case v1::DATA_TYPE_I32:
      return {"int32_data", proto.int32_data_size(), readInt32<int32_t>};
    case v1::DATA_TYPE_I16:
      return {"int32_data", proto.int32_data_size(), readInt32<int16_t>};
    case v1::DATA_TYPE_I8:
      return {"int32_data", proto.int32_data_size(), readInt32<int8_t>};
    case v1::DATA_TYPE_U8:
    case v1::DATA_TYPE_BOOL:
      return {"int32_data", proto.int32_data_size(), readInt32<uint8_t>};
    default:  // u16, and the bit patterns of f16 and bf16
      return {"int32_data", proto.int32_data_size(), readInt32<uint16_t>};
  }
}

absl::StatusOr<ConstantPtr> readExternal(const onnx::TensorProto& proto, Constant constant, ExternalData& external) {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const auto& entry : proto.external_data()) {
    int64_t number = 0;
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      if (!absl::SimpleAtoi(entry.value(), &number) || number < 0) {
        return wrongLength(proto, constant, absl::StrCat("external_data.", entry.key()),
                           absl::StrCat("'", printable(entry.value()), "'"), "a number of bytes");
      }
      if (entry.key() == "offset") {
        offset = number;
      } else {
        length = number;
      }
    }
  }
  // The file is mapped: elements stay on disk until something reads them.
  TESSERA_ASSIGN_OR_RETURN(MappedFile file, external.find(location, proto.name()));
  const int64_t need = storedBytes(constant.elements(), constant.dtype);
  if (length && *length != need) {
    return wrongLength(proto, constant, "external_data.length", absl::StrCat(*length, " bytes"),
                       absl::StrCat(need, " bytes"));
  }
  const auto size = static_cast<int64_t>(file.bytes.size());
  // Written without a sum of file numbers, which might overflow.
  if (offset > size || need > size - offset) {
    return wrongLength(proto, constant, "external_data",
                       absl::StrCat(size, " bytes in '", printable(location), "' from offset ", offset),
                       absl::StrCat(need, " bytes from there"));
  }
  constant.bytes = file.bytes.substr(offset, need);
  constant.owner = file.owner;
  return unpacked(constant);
}

}  // namespace

absl::StatusOr<ConstantPtr> readTensor(const onnx::TensorProto& proto, const std::shared_ptr<const void>& keep_alive,
                                       ExternalData& external) {
  const std::optional<v1::DataType> dtype = elementType(proto.data_type());
  if (!dtype) {
    return elementTypeError(proto.data_type(), label(proto), absl::StrCat(printable(proto.name()), ".data_type"));
  }
  Constant constant{*dtype, Shape(proto.dims().begin(), proto.dims().end()), {}, keep_alive};
  TESSERA_RETURN_IF_ERROR(checkShape(constant.shape, *dtype, label(proto)));
  if (proto.has_segment()) {
    return fault(v1::Failure::INVALID_MODEL, absl::StrCat(label(proto), " is stored in segments"),
                 {.attribute = printable(proto.name()), .accepted = "tensors in one piece"});
  }
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) return readExternal(proto, std::move(constant), external);

  const int64_t count = constant.elements();
  const int64_t need = storedBytes(count, *dtype);
  const TypedField field = typedField(proto, *dtype);
  // raw_data has precedence over the typed field of the element type.
  if (proto.has_raw_data()) {
    if (static_cast<int64_t>(proto.raw_data().size()) != need) {
      return wrongLength(proto, constant, "raw_data", absl::StrCat(proto.raw_data().size(), " bytes"),
                         absl::StrCat(need, " bytes"));
    }
    constant.bytes = proto.raw_data();
    return unpacked(constant);
  }
  // A number of the typed field holds one byte of a packed type, otherwise one element.
  const int64_t entries = elementBits(*dtype) < 8 ? need : count;
  if (field.count != entries) {
    return wrongLength(proto, constant, field.name, absl::StrCat(field.count, " elements"),
                       absl::StrCat(entries, " elements"));
  }
  std::string bytes;
  if (!field.read(proto, bytes)) {
    return wrongLength(proto, constant, field.name, "a value outside the element type's range",
                       absl::StrCat("values of ", typeName(*dtype)));
  }
  constant.bytes = bytes;
  if (entries != count) return unpacked(constant);
  return makeConstant(*dtype, std::move(constant.shape), std::move(bytes));
}

}  // namespace tessera::compiler
