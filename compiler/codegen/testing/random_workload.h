#pragma once

#include <random>
#include <string>

#include "tessera/v1/plan.pb.h"

/// Workloads and schedules that nobody designed, from a seed: any loops, any order of dimensions in memory, any operand
/// missing some of them.
namespace tessera::compiler::codegen::testing {

struct RandomWorkload {
  std::string family;  ///< "contraction", "window", "reduction", "elementwise", "rows"
  std::string ir;
  double tolerance;  ///< follows from the element type and the terms of the longest sum
  double low, high;  ///< range of its operands
};

RandomWorkload randomWorkload(unsigned seed);

/// Another register file, register tile, cache blocks, packed operands or strategy than the ones chosen; now and then
/// none. A schedule that does not fit the workload is the compiler's to replace.
void randomSchedule(unsigned seed, v1::BuildUnit& unit);

}  // namespace tessera::compiler::codegen::testing
