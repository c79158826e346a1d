#include "compiler/backends/spatial/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"
#include "proto/messages/float_value.h"

namespace tessera::compiler::simulator {
namespace {

/// Parameters of an IEEE 754 format narrower than double.
struct Format {
  int digits;    // of the significand, including the implicit one
  int exponent;  // smallest exponent of a normal number
  double largest;
};

Format formatOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return {11, -14, 65504};
    case v1::DATA_TYPE_BF16:
      return {8, -126, std::ldexp(255.0, 120)};
    default:
      return {24, -126, std::numeric_limits<float>::max()};
  }
}

/// Sign, exponent and fraction bits of a number that is representable in the format.
uint32_t bitsOf(double value, const Format& format) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const int fraction = format.digits - 1, width = format.digits == 11 ? 16 : format.digits == 8 ? 16 : 32;
  const uint32_t sign = static_cast<uint32_t>(bits >> 63) << (width - 1);
  const int exponents = width - 1 - fraction;
  if (std::isnan(value)) return sign | ((uint32_t{1} << exponents) - 1) << fraction | uint32_t{1} << (fraction - 1);
  if (std::isinf(value)) return sign | ((uint32_t{1} << exponents) - 1) << fraction;
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  // Denormal: the fraction counts multiples of the smallest number.
  if (exponent < format.exponent) {
    return sign | static_cast<uint32_t>(std::ldexp(std::fabs(value), fraction - format.exponent));
  }
  const uint32_t places = static_cast<uint32_t>(bits >> (52 - fraction)) & ((uint32_t{1} << fraction) - 1);
  return sign | static_cast<uint32_t>(exponent - format.exponent + 1) << fraction | places;
}

bool isUnsigned(v1::DataType type) {
  return type == v1::DATA_TYPE_U8 || type == v1::DATA_TYPE_U16 || type == v1::DATA_TYPE_U32 ||
         type == v1::DATA_TYPE_U64 || type == v1::DATA_TYPE_BOOL;
}

template <typename Stored, typename Number>
void decodeAs(const uint8_t* from, size_t count, Number* numbers) {
  for (size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    numbers[i] = static_cast<Number>(value);
  }
}

template <typename Number>
void decodeIntegers(v1::DataType type, const uint8_t* from, size_t count, Number* numbers) {
  switch (type) {
    case v1::DATA_TYPE_I8:
      return decodeAs<int8_t>(from, count, numbers);
    case v1::DATA_TYPE_I16:
      return decodeAs<int16_t>(from, count, numbers);
    case v1::DATA_TYPE_I32:
      return decodeAs<int32_t>(from, count, numbers);
    case v1::DATA_TYPE_U16:
      return decodeAs<uint16_t>(from, count, numbers);
    case v1::DATA_TYPE_U32:
      return decodeAs<uint32_t>(from, count, numbers);
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U64:
      return decodeAs<int64_t>(from, count, numbers);
    default:
      return decodeAs<uint8_t>(from, count, numbers);
  }
}

}  // namespace

double rounded(double value, v1::DataType type) {
  if (type == v1::DATA_TYPE_F64 || value == 0 || !std::isfinite(value)) return value;
  const Format format = formatOf(type);
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff) - 1023;
  // Adding and subtracting 1.5 * 2^(52 + q) rounds to multiples of 2^q.
  const int q = std::max(exponent, format.exponent) - (format.digits - 1);
  const double shift = 1.5 * std::bit_cast<double>(static_cast<uint64_t>(q + 52 + 1023) << 52);
  const double nearest = (value + shift) - shift;
  // The difference of a negative number that rounds to zero is +0.
  if (std::fabs(nearest) <= format.largest) return std::copysign(nearest, value);
  return std::copysign(std::numeric_limits<double>::infinity(), value);
}

double unitRoundoff(v1::DataType type) {
  return type == v1::DATA_TYPE_F64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -formatOf(type).digits);
}

int64_t least(v1::DataType type) {
  return isUnsigned(type) ? 0 : std::numeric_limits<int64_t>::min() >> (64 - 8 * elementBytes(type));
}

int64_t largest(v1::DataType type) {
  const int64_t bits = std::min<int64_t>(63, 8 * elementBytes(type) - (isUnsigned(type) ? 0 : 1));
  return static_cast<int64_t>((uint64_t{1} << bits) - 1);
}

int64_t held(int64_t value, v1::DataType type, v1::Intrinsic::Arithmetic::Overflow overflow) {
  const int64_t bits = 8 * elementBytes(type);
  if (isFloatingPoint(type) || bits >= 64) return value;
  if (overflow == v1::Intrinsic::Arithmetic::SATURATE) return std::clamp(value, least(type), largest(type));
  const uint64_t up = static_cast<uint64_t>(value) << (64 - bits);
  return isUnsigned(type) ? static_cast<int64_t>(up >> (64 - bits)) : static_cast<int64_t>(up) >> (64 - bits);
}

void decode(v1::DataType type, const uint8_t* from, size_t count, double* numbers) {
  if (type == v1::DATA_TYPE_F32) return decodeAs<float>(from, count, numbers);
  if (!isFloatingPoint(type)) return decodeIntegers(type, from, count, numbers);
  const auto bytes = static_cast<size_t>(elementBytes(type));
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = floatValue(type, reinterpret_cast<const char*>(from + i * bytes));
  }
}

void decode(v1::DataType type, const uint8_t* from, size_t count, int64_t* numbers) {
  decodeIntegers(type, from, count, numbers);
}

void encode(v1::DataType type, const double* numbers, size_t count, uint8_t* to) {
  const auto bytes = static_cast<size_t>(elementBytes(type));
  for (size_t i = 0; i < count; ++i) {
    if (type == v1::DATA_TYPE_F64) {
      std::memcpy(to + i * bytes, numbers + i, bytes);
    } else if (isFloatingPoint(type)) {
      const uint32_t bits = bitsOf(numbers[i], formatOf(type));
      std::memcpy(to + i * bytes, &bits, bytes);  // little-endian, as floatValue expects
    } else {
      const auto whole = static_cast<int64_t>(numbers[i]);
      std::memcpy(to + i * bytes, &whole, bytes);
    }
  }
}

void encode(v1::DataType type, const int64_t* numbers, size_t count, uint8_t* to) {
  const auto bytes = static_cast<size_t>(elementBytes(type));
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, numbers + i, bytes);
}

}  // namespace tessera::compiler::simulator
