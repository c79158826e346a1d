#pragma once

#include <algorithm>
#include <cstdint>

/// What a register tile costs, for all plans that choose one.
namespace tessera::compiler::codegen {

/// Bytes that L2 hands to L1 in a cycle, sustained (measured: 20 to 22 on Cascade Lake, whose lines could come at 64).
inline constexpr double kL2BytesPerCycle = 22;

/// Cycles of one reduction step of a rows x vectors tile, `l2_bytes` of which come from beyond L1. Two multiply-adds
/// and four instructions a cycle, a latency of four between dependent ones. When another thread is on the core it
/// takes every second cycle of the front end, not of the arithmetic: then loads are not free beside it, and equation
/// 3.4's intensity decides. Half of the time is taken to be like this.
inline double stepCycles(int64_t rows, int64_t vectors, double l2_bytes) {
  const auto products = static_cast<double>(rows * vectors);
  const double instructions = products + static_cast<double>(rows + vectors);
  const double least = std::max(4.0, l2_bytes / kL2BytesPerCycle);
  const double alone = std::max({products / 2, instructions / 4, static_cast<double>(rows + vectors) / 2, least});
  return (alone + std::max(instructions / 2, least)) / 2;
}

/// Splits `extent` into full tiles and a rest: calls fn(size, count).
template <typename Fn>
void forTiles(int64_t extent, int64_t tile, Fn fn) {
  if (extent / tile > 0) fn(tile, extent / tile);
  if (extent % tile > 0) fn(extent % tile, 1);
}

}  // namespace tessera::compiler::codegen
