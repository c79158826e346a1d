#include "compiler/backends/spatial/strip_values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

// A product and a sum are two operations on every machine.
#pragma clang fp contract(off)

namespace tessera::compiler::simulator {
namespace {

constexpr uint32_t kSingleInfinity = 0x7f800000, kMagnitude = 0x7fffffff;

float ofHalf(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffU, sign = (half & 0x8000U) << 16;
  // Infinities and NaNs keep their exponent; other numbers move by the difference of the biases, denormals too.
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | kSingleInfinity | magnitude << 13);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112F));
}

uint16_t toHalf(float rounded) {
  const uint32_t bits = std::bit_cast<uint32_t>(rounded), sign = bits >> 16 & 0x8000U, magnitude = bits & kMagnitude;
  if (magnitude > kSingleInfinity) return static_cast<uint16_t>(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
  if (magnitude == kSingleInfinity) return static_cast<uint16_t>(sign | 0x7c00U);
  return static_cast<uint16_t>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p-112F) >> 13);
}

float ofBrain(uint16_t brain) { return std::bit_cast<float>(uint32_t{brain} << 16); }
uint16_t toBrain(float rounded) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) >> 16); }

/// One element of a type in memory, and as it is kept.
template <typename Stored>
struct Plain {
  using Element = Stored;
  static Element load(const uint8_t* from) {
    Element element;
    std::memcpy(&element, from, sizeof element);
    return element;
  }
  static void store(uint8_t* to, Element element) { std::memcpy(to, &element, sizeof element); }
};
struct Half : Plain<uint16_t> {
  static float kept(uint16_t element) { return ofHalf(element); }
  static uint16_t stored(float value) { return toHalf(value); }
};
struct Brain : Plain<uint16_t> {
  static float kept(uint16_t element) { return ofBrain(element); }
  static uint16_t stored(float value) { return toBrain(value); }
};
template <typename Real>
struct Exact : Plain<Real> {
  static Real kept(Real element) { return element; }
  static Real stored(Real value) { return value; }
};
/// An integer type of a buffer; arithmetic has no sign, so that unsigned elements are kept sign-extended, too.
template <typename Signed>
struct Whole : Plain<Signed> {
  static int64_t kept(Signed element) { return element; }
  static Signed stored(int64_t value) { return static_cast<Signed>(value); }
};
struct Bool : Plain<uint8_t> {
  static int64_t kept(uint8_t element) { return element != 0; }
  static uint8_t stored(int64_t value) { return value != 0; }
};

template <typename Type, typename Value>
void readAs(const uint8_t* buffer, const StripPlace& place, int count, Value* to) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Type::Element));
  if (place.regular) {
    const uint8_t* from = buffer + (place.positions[0] + place.shift) * kBytes;
    if (place.step == 0) {
      const Value same = Type::kept(Type::load(from));
      for (int i = 0; i < count; ++i) to[i] = same;
    } else if (place.step == 1) {
      for (int i = 0; i < count; ++i) to[i] = Type::kept(Type::load(from + i * kBytes));
    } else {
      for (int i = 0; i < count; ++i) to[i] = Type::kept(Type::load(from + i * place.step * kBytes));
    }
    return;
  }
  for (int i = 0; i < count; ++i) to[i] = Type::kept(Type::load(buffer + (place.positions[i] + place.shift) * kBytes));
}

template <typename Type, typename Value>
void writeAs(uint8_t* buffer, const StripPlace& place, int count, const Value* from) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(typename Type::Element));
  if (place.regular && place.step == 1) {
    uint8_t* to = buffer + (place.positions[0] + place.shift) * kBytes;
    for (int i = 0; i < count; ++i) Type::store(to + i * kBytes, Type::stored(from[i]));
    return;
  }
  for (int i = 0; i < count; ++i) {
    const int64_t position = place.regular ? place.positions[0] + i * place.step : place.positions[i];
    Type::store(buffer + (position + place.shift) * kBytes, Type::stored(from[i]));
  }
}

}  // namespace

Kept keptAs(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F64:
      return Kept::kDouble;
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      return Kept::kSingle;
    default:
      return Kept::kWhole;
  }
}

float roundedToHalf(float value) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & kMagnitude;
  if (magnitude == 0 || magnitude >= kSingleInfinity) return value;
  // Adding and subtracting 1.5 * 2^(23 + q) rounds to multiples of 2^q: the last place of the f16 result.
  constexpr uint32_t kMinNormal = 127 - 14;
  const uint32_t exponent = std::max(magnitude >> 23, kMinNormal);
  const float shift = 1.5F * std::bit_cast<float>((exponent + 13) << 23);
  if (exponent > 127 + 16) return std::copysign(std::numeric_limits<float>::infinity(), value);
  const float nearest = (value + shift) - shift;
  if (std::fabs(nearest) > 65504) return std::copysign(std::numeric_limits<float>::infinity(), value);
  return nearest == 0 ? std::copysign(0.0F, value) : nearest;
}

float roundedToBrain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & kMagnitude) > kSingleInfinity) return std::bit_cast<float>((bits | 0x400000U) & 0xffff0000U);
  return std::bit_cast<float>((bits + 0x7fffU + (bits >> 16 & 1U)) & 0xffff0000U);
}

void readStrip(v1::DataType type, const uint8_t* buffer, const StripPlace& place, int count, StripValue& to) {
  switch (type) {
    case v1::DATA_TYPE_F32:
      return readAs<Exact<float>>(buffer, place, count, to.single());
    case v1::DATA_TYPE_F64:
      return readAs<Exact<double>>(buffer, place, count, to.real());
    case v1::DATA_TYPE_F16:
      return readAs<Half>(buffer, place, count, to.single());
    case v1::DATA_TYPE_BF16:
      return readAs<Brain>(buffer, place, count, to.single());
    case v1::DATA_TYPE_I8:
    case v1::DATA_TYPE_U8:
      return readAs<Whole<int8_t>>(buffer, place, count, to.whole());
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      return readAs<Whole<int16_t>>(buffer, place, count, to.whole());
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_U32:
      return readAs<Whole<int32_t>>(buffer, place, count, to.whole());
    case v1::DATA_TYPE_BOOL:
      return readAs<Bool>(buffer, place, count, to.whole());
    default:
      return readAs<Whole<int64_t>>(buffer, place, count, to.whole());
  }
}

void writeStrip(v1::DataType type, uint8_t* buffer, const StripPlace& place, int count, const StripValue& from) {
  switch (type) {
    case v1::DATA_TYPE_F32:
      return writeAs<Exact<float>>(buffer, place, count, from.single());
    case v1::DATA_TYPE_F64:
      return writeAs<Exact<double>>(buffer, place, count, from.real());
    case v1::DATA_TYPE_F16:
      return writeAs<Half>(buffer, place, count, from.single());
    case v1::DATA_TYPE_BF16:
      return writeAs<Brain>(buffer, place, count, from.single());
    case v1::DATA_TYPE_I8:
    case v1::DATA_TYPE_U8:
      return writeAs<Whole<int8_t>>(buffer, place, count, from.whole());
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      return writeAs<Whole<int16_t>>(buffer, place, count, from.whole());
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_U32:
      return writeAs<Whole<int32_t>>(buffer, place, count, from.whole());
    case v1::DATA_TYPE_BOOL:
      return writeAs<Bool>(buffer, place, count, from.whole());
    default:
      return writeAs<Whole<int64_t>>(buffer, place, count, from.whole());
  }
}

}  // namespace tessera::compiler::simulator
