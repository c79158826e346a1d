#include "proto/messages/float_value.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// IEEE 754 binary16: sign, 5-bit exponent, 10-bit fraction.
double halfValue(uint16_t bits) {
  const double sign = bits >> 15 ? -1 : 1;
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) {
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

}  // namespace

double floatValue(v1::DataType type, const char* from) {
  switch (type) {
    case v1::DATA_TYPE_F64:
      return load<double>(from);
    case v1::DATA_TYPE_F16:
      return halfValue(load<uint16_t>(from));
    case v1::DATA_TYPE_BF16: {  // bf16 is the upper half of an f32
      const uint32_t bits = uint32_t{load<uint16_t>(from)} << 16;
      return load<float>(reinterpret_cast<const char*>(&bits));
    }
    default:
      return load<float>(from);
  }
}

}  // namespace tessera
