#include "compiler/backends/opencl/element_code.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::widthOf;

/// A decimal literal that reads back as the same number. `digits`: 9 for float, 17 for double.
std::string realLiteral(double value, bool is_double) {
  if (std::isnan(value)) return is_double ? "((double)NAN)" : "NAN";
  if (std::isinf(value)) return absl::StrCat(value < 0 ? "(-" : "(", is_double ? "(double)INFINITY)" : "INFINITY)");
  std::string text = is_double ? absl::StrFormat("%.17g", value) : absl::StrFormat("%.9g", value);
  if (!absl::StrContains(text, '.') && !absl::StrContains(text, 'e')) text += ".0";
  if (!is_double) text += "f";
  return std::signbit(value) ? absl::StrCat("(", text, ")") : text;
}

}  // namespace

const char* valueType(v1::DataType type) {
  if (type == v1::DATA_TYPE_F64) return "double";
  if (isFloatingPoint(type)) return "float";
  switch (widthOf(type)) {
    case 8:
      return "char";
    case 16:
      return "short";
    case 64:
      return "long";
    default:
      return "int";
  }
}

int64_t valueBytes(v1::DataType type) {
  if (type == v1::DATA_TYPE_F64) return 8;
  const int width = widthOf(type);
  return isFloatingPoint(type) || width < 8 ? 4 : width / 8;
}

const char* unsignedValueType(v1::DataType type) {
  switch (widthOf(type)) {
    case 8:
      return "uchar";
    case 16:
      return "ushort";
    case 64:
      return "ulong";
    default:
      return "uint";
  }
}

const char* storedType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return "half";
    case v1::DATA_TYPE_BF16:
      return "ushort";
    case v1::DATA_TYPE_BOOL:
      return "uchar";
    default:
      return valueType(type);
  }
}

std::string loadCode(v1::DataType type, const std::string& pointer, const std::string& position) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return absl::StrCat("vload_half(", position, ", ", pointer, ")");
    case v1::DATA_TYPE_BF16:
      return absl::StrCat("t_bf16(", pointer, "[", position, "])");
    case v1::DATA_TYPE_BOOL:
      return absl::StrCat("(", pointer, "[", position, "] != 0)");
    default:
      return absl::StrCat(pointer, "[", position, "]");
  }
}

std::string storeCode(v1::DataType type, const std::string& pointer, const std::string& position,
                      const std::string& value) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return absl::StrCat("vstore_half_rte(", value, ", ", position, ", ", pointer, ");");
    case v1::DATA_TYPE_BF16:
      return absl::StrCat(pointer, "[", position, "] = t_bf16_bits(", value, ");");
    default:
      return absl::StrCat(pointer, "[", position, "] = ", value, ";");
  }
}

std::string roundedCode(v1::DataType type, const std::string& value) {
  if (type == v1::DATA_TYPE_F16) return absl::StrCat("t_round_f16(", value, ")");
  if (type == v1::DATA_TYPE_BF16) return absl::StrCat("t_round_bf16(", value, ")");
  return std::string(value);
}

std::string literalCode(v1::DataType type, std::string_view bytes) {
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  if (type == v1::DATA_TYPE_F64) {
    double value = 0;
    std::memcpy(&value, from, sizeof value);
    return realLiteral(value, true);
  }
  if (isFloatingPoint(type)) {
    double value = 0;
    simulator::decode(type, from, 1, &value);
    return realLiteral(value, false);
  }
  uint64_t number = 0;
  std::memcpy(&number, from, std::min(bytes.size(), sizeof number));
  const int width = widthOf(type);
  if (type == v1::DATA_TYPE_BOOL) return (number & 1) != 0 ? "1" : "0";
  const auto value =
      width == 64 ? static_cast<int64_t>(number) : static_cast<int64_t>(number << (64 - width)) >> (64 - width);
  if (width == 64)
    return value == INT64_MIN ? "LONG_MIN" : value < 0 ? absl::StrCat("(", value, "L)") : absl::StrCat(value, "L");
  if (value == INT32_MIN) return "INT_MIN";
  const std::string text = value < 0 ? absl::StrCat("(", value, ")") : absl::StrCat(value);
  return width < 32 ? absl::StrCat("((", valueType(type), ")", text, ")") : text;
}

}  // namespace tessera::compiler::opencl
