#include "clients/cpp/sample_tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tessera::client {
namespace {

int64_t elementsOf(const v1::TensorSpec& spec) {
  int64_t count = 1;
  for (const int64_t extent : spec.shape()) count *= extent;
  return count;
}

size_t widthOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F64:
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U64:
      return 8;
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_U32:
      return 4;
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      return 2;
    default:
      return 1;
  }
}

bool isFloat(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16;
}

/// binary16 and bfloat16 hold the upper part of a wider format's digits.
double halfToDouble(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, digits = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return digits != 0 ? NAN : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(digits, -24) : std::ldexp(1024 + digits, exponent - 25));
}

double elementAt(v1::DataType type, const char* at) {
  auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case v1::DATA_TYPE_F64:
      return read(double());
    case v1::DATA_TYPE_F16:
      return halfToDouble(read(uint16_t()));
    case v1::DATA_TYPE_BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(read(uint16_t())) << 16);
    default:
      return read(float());
  }
}

void putFloat(v1::DataType type, float value, char* at) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (type == v1::DATA_TYPE_F64) {
    const double wide = value;
    std::memcpy(at, &wide, sizeof wide);
  } else if (type == v1::DATA_TYPE_BF16) {
    const auto half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(at, &half, sizeof half);
  } else if (type == v1::DATA_TYPE_F16) {
    // Multiples of 1/1024 below 1: exact, and the largest digit says the exponent.
    const int scaled = static_cast<int>(std::fabs(value) * 1024);
    int exponent = 0;
    if (scaled > 0) std::frexp(scaled, &exponent);
    const int digits = scaled > 0 ? static_cast<int>(std::ldexp(scaled, 11 - exponent)) & 1023 : 0;
    const auto half =
        static_cast<uint16_t>((value < 0 ? 0x8000 : 0) | (scaled > 0 ? (exponent + 4) << 10 : 0) | digits);
    std::memcpy(at, &half, sizeof half);
  } else {
    std::memcpy(at, &value, sizeof value);
  }
}

}  // namespace

std::string sampleTensor(const v1::TensorSpec& spec, uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t width = widthOf(spec.dtype());
  std::string bytes(static_cast<size_t>(elementsOf(spec)) * width, '\0');
  for (size_t at = 0; at < bytes.size(); at += width) {
    const uint64_t drawn = random();
    if (isFloat(spec.dtype())) {
      putFloat(spec.dtype(), static_cast<float>(static_cast<int64_t>(drawn >> 40) - (1 << 23)) * 0x1p-23F, &bytes[at]);
    } else {
      bytes[at] = static_cast<char>(drawn & 1);
    }
  }
  return bytes;
}

std::string differenceOf(const v1::TensorSpec& spec, const std::string& wanted, const std::string& found,
                         double tolerance) {
  if (wanted.size() != found.size()) return absl::StrCat(found.size(), " bytes instead of ", wanted.size());
  if (!isFloat(spec.dtype())) return wanted == found ? "" : "other values";
  const size_t width = widthOf(spec.dtype());
  double largest = 0, error = 0;
  for (size_t at = 0; at < wanted.size(); at += width) {
    const double a = elementAt(spec.dtype(), &wanted[at]), b = elementAt(spec.dtype(), &found[at]);
    if (std::isfinite(a) && std::isfinite(b)) {
      largest = std::max(largest, std::fabs(a));
      error = std::max(error, std::fabs(a - b));
    } else if (std::isnan(a) != std::isnan(b) || (!std::isnan(a) && a != b)) {
      return absl::StrCat(b, " at element ", at / width, " instead of ", a);
    }
  }
  if (error <= tolerance * largest) return "";
  return absl::StrCat("an error of ", error, ", more than ", tolerance, " of the largest magnitude ", largest);
}

}  // namespace tessera::client
