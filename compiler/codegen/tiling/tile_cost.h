#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/target/chip.h"

/// What a register tile costs, for all plans that choose one.
namespace tessera::compiler::codegen {

/// Cycles of one reduction step of a rows x vectors tile, in `arriving` of which what it needs comes from beyond L1;
/// with `filled` L2 takes in as much as it holds while it hands over: panels and blocks from beyond it. Of a core that
/// runs two threads the other one takes its part of the front end, not of the arithmetic: then loads are not free
/// beside it, and equation 3.4's intensity decides. Half of the time is taken to be like this.
inline double stepCycles(const Chip& chip, int64_t rows, int64_t vectors, double arriving, bool filled = false) {
  const v1::Prices::Memory& memory = chip.prices().memory();
  const auto products = static_cast<double>(rows * vectors);
  const double loads = static_cast<double>(rows + vectors), instructions = products + loads;
  const double least = std::max(chip.multiplyAddLatency(), arriving);
  const double alone = std::max({products / chip.multiplyAddsPerCycle(), instructions / chip.instructionsPerCycle(),
                                 loads / chip.loadsPerCycle(), least});
  if (chip.threadsPerCore() == 1) return alone + (filled ? memory.filled_waits_share() * arriving : 0);
  const double waits = filled ? (memory.filled_waits_share() + memory.filled_waits_beside_share()) * arriving : 0;
  const double beside = instructions * chip.threadsPerCore() / chip.instructionsPerCycle();
  return (alone + std::max(beside, least) + waits) / 2;
}

/// Whether every `stride`-th element is better read as whole vectors that are thinned out in registers than one by one.
inline bool loadsWholeVectors(int64_t stride, int lanes) {
  constexpr int64_t kLargestStride = 4;  // beyond, most of what is loaded is thrown away, whatever the chip
  return stride >= 2 && stride <= kLargestStride && lanes >= 4;
}

/// Instructions in which a vector of every `stride`-th element is made, under loadsWholeVectors.
inline int64_t stridedLoadCost(int64_t stride) { return 2 * stride - 1; }

/// Splits `extent` into full tiles and a rest: calls fn(size, count).
template <typename Fn>
void forTiles(int64_t extent, int64_t tile, Fn fn) {
  if (extent / tile > 0) fn(tile, extent / tile);
  if (extent % tile > 0) fn(extent % tile, 1);
}

}  // namespace tessera::compiler::codegen
