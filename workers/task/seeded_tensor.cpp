#include "workers/task/seeded_tensor.h"

#include <cstring>
#include <random>

namespace tessera::worker {
namespace {

// Conversions to the 16-bit formats by truncation, which is sufficient for test data.
uint16_t toBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

uint16_t toF16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000;
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 127 + 15;
  if (exponent <= 0) return static_cast<uint16_t>(sign);  // values below 2^-14 become zero
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10 | ((bits >> 13) & 0x3ff));
}

template <typename Element, typename Make>
void fill(void* data, int64_t bytes, const Make& make) {
  auto* elements = static_cast<Element*>(data);
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(Element)); ++i) elements[i] = make();
}

}  // namespace

void fillSeeded(v1::DataType dtype, uint64_t seed, void* data, int64_t bytes) {
  // The standard specifies this engine's numbers, but not those of the distributions.
  std::mt19937_64 random(seed);
  // Converts 53 random bits to a number in [-1, 1).
  const auto real = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1.0; };
  const auto small = [&] { return random() >> 61; };
  switch (dtype) {
    case v1::DATA_TYPE_F64:
      return fill<double>(data, bytes, real);
    case v1::DATA_TYPE_F32:
      return fill<float>(data, bytes, [&] { return static_cast<float>(real()); });
    case v1::DATA_TYPE_F16:
      return fill<uint16_t>(data, bytes, [&] { return toF16(static_cast<float>(real())); });
    case v1::DATA_TYPE_BF16:
      return fill<uint16_t>(data, bytes, [&] { return toBf16(static_cast<float>(real())); });
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U64:
      return fill<uint64_t>(data, bytes, small);
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_U32:
      return fill<uint32_t>(data, bytes, [&] { return static_cast<uint32_t>(small()); });
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      return fill<uint16_t>(data, bytes, [&] { return static_cast<uint16_t>(small()); });
    case v1::DATA_TYPE_BOOL:
      return fill<uint8_t>(data, bytes, [&] { return static_cast<uint8_t>(small() & 1); });
    default:
      return fill<uint8_t>(data, bytes, [&] { return static_cast<uint8_t>(small()); });
  }
}

}  // namespace tessera::worker
