#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/target/chip.h"

/// The cost of a register tile, shared by all planners that choose one.
namespace tessera::compiler::codegen {

/// What a core issues for one reduction step of a tile: products in issue slots for multiply-adds, loads, and the
/// cycles until the next step may add to the same sums.
struct StepWork {
  double products = 0, loads = 0, latency = 0;
};

/// Cycles of one reduction step. `arriving`: cycles for data from beyond L1. `filled`: panels
/// and blocks from beyond L2 fill L2 at the rate at which L2 is read, which adds waiting time. On a core with two
/// hardware threads the result is the mean of two costs: the cost of a tile that has the core to itself, and the cost
/// beside a second thread. The second thread takes half of the instruction issue slots but leaves the arithmetic units
/// free. Instructions, loads included, then limit the tile, and the best tile has the most products per load (the
/// intensity of equation 3.4 of Chimera).
inline double stepCycles(const Chip& chip, const StepWork& work, double arriving, bool filled = false) {
  const v1::CostParameters::Memory& memory = chip.costParameters().memory();
  const double instructions = work.products + work.loads, least = std::max(work.latency, arriving);
  const double alone = std::max({work.products / chip.multiplyAddsPerCycle(),
                                 instructions / chip.instructionsPerCycle(), work.loads / chip.loadsPerCycle(), least});
  if (chip.threadsPerCore() == 1) return alone + (filled ? memory.fill_stall_share() * arriving : 0);
  const double waits = filled ? (memory.fill_stall_share() + memory.fill_stall_smt_share()) * arriving : 0;
  const double beside = instructions * chip.threadsPerCore() / chip.instructionsPerCycle();
  return (alone + std::max(beside, least) + waits) / 2;
}

/// The same for a rows x vectors tile of multiply-adds.
inline double stepCycles(const Chip& chip, int64_t rows, int64_t vectors, double arriving, bool filled = false) {
  return stepCycles(chip,
                    {.products = static_cast<double>(rows * vectors),
                     .loads = static_cast<double>(rows + vectors),
                     .latency = chip.multiplyAddLatency()},
                    arriving, filled);
}

/// Whether loading whole vectors and picking every `stride`-th element in registers is better than loading single
/// elements.
inline bool loadsWholeVectors(int64_t stride, int lanes) {
  constexpr int64_t kLargestStride = 4;  // beyond this, most of the loaded data is unused on any chip
  return stride >= 2 && stride <= kLargestStride && lanes >= 4;
}

/// Instructions that produce a vector of every `stride`-th element, if loadsWholeVectors.
inline int64_t stridedLoadCost(int64_t stride) { return 2 * stride - 1; }

/// Splits `extent` into full tiles and a remainder; calls fn(size, count) for each.
template <typename Fn>
void forTiles(int64_t extent, int64_t tile, Fn fn) {
  if (extent / tile > 0) fn(tile, extent / tile);
  if (extent % tile > 0) fn(extent % tile, 1);
}

}  // namespace tessera::compiler::codegen
