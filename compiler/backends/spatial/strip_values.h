#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tessera/v1/tensor.pb.h"

/// Values of a body at up to kStrip points.
namespace tessera::compiler::simulator {

inline constexpr int kStrip = 128;

/// One value at each point of a strip. f32, f16 and bf16 are kept as float, already rounded to their type; f64 as
/// double; integers sign-extended to 64 bits, bool as 0 or 1.
struct alignas(64) StripValue {
  // Bytes, so that floats and integers may be created in them.
  std::array<std::byte, kStrip * sizeof(int64_t)> storage;

  float* single() { return reinterpret_cast<float*>(storage.data()); }
  double* real() { return reinterpret_cast<double*>(storage.data()); }
  int64_t* whole() { return reinterpret_cast<int64_t*>(storage.data()); }
  const float* single() const { return reinterpret_cast<const float*>(storage.data()); }
  const double* real() const { return reinterpret_cast<const double*>(storage.data()); }
  const int64_t* whole() const { return reinterpret_cast<const int64_t*>(storage.data()); }
};

/// How a type is kept in a StripValue.
enum class Kept : uint8_t { kSingle, kDouble, kWhole };
Kept keptAs(v1::DataType type);

/// The nearest f16 or bf16, ties to even; infinity beyond the largest.
float roundedToHalf(float value);
float roundedToBrain(float value);

/// Reads `count` elements of a buffer: positions[i], or positions[0] + i * step if `regular`.
struct StripPlace {
  const int64_t* positions = nullptr;
  bool regular = false;
  int64_t step = 0;
  int64_t shift = 0;  ///< added to every position
};
void readStrip(v1::DataType type, const uint8_t* buffer, const StripPlace& place, int count, StripValue& to);
void writeStrip(v1::DataType type, uint8_t* buffer, const StripPlace& place, int count, const StripValue& from);

}  // namespace tessera::compiler::simulator
