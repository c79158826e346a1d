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
  double tolerance = 0;      ///< follows from the element type and the terms of the longest sum
  double low = 0, high = 0;  ///< range of its operands
};

RandomWorkload randomWorkload(unsigned seed);

/// Changes up to four fields of a tree of `unit`; what the workload cannot follow is left as it was.
void randomSchedule(unsigned seed, const v1::BuildUnit& unit, v1::Schedule& schedule);

}  // namespace tessera::compiler::codegen::testing
