#pragma once

#include <cstdint>

#include "tessera/v1/target.pb.h"

/// Sizes that schedules for an OpenCL device must fit.
namespace tessera::compiler::opencl {

/// Work-items of a work-group that run together on every device without waste.
inline constexpr int64_t kGroupItems = 64;

/// Largest number of work-items of a work-group.
inline int64_t maxItems(const v1::Target& target) {
  return target.units_size() > 0 && target.units(0).threads() > 0 ? target.units(0).threads() : kGroupItems;
}

/// Local memory of a work-group.
inline int64_t localBytes(const v1::Target& target) {
  return target.memory_size() > 1 ? target.memory(0).capacity_bytes() : 0;
}

/// The largest power of two that is at most `value`, which is at least 1.
inline int64_t powerWithin(int64_t value) {
  int64_t power = 1;
  while (power * 2 <= value) power *= 2;
  return power;
}

}  // namespace tessera::compiler::opencl
