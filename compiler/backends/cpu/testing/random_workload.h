#pragma once

#include <random>
#include <string>

#include "tessera/v1/plan.pb.h"

/// Random workloads and schedules from a seed: any loops, any order of dimensions in memory, operands that lack some of
/// them.
namespace tessera::compiler::codegen::testing {

struct RandomWorkload {
  std::string family;  ///< "contraction", "window", "reduction", "elementwise", "rows"
  std::string ir;
  double tolerance = 0;      ///< derived from the element type and the number of terms of the longest sum
  double low = 0, high = 0;  ///< range of its operands
};

RandomWorkload randomWorkload(unsigned seed);

/// Changes up to four fields of a tree of `unit`; a change that the workload cannot follow is undone.
void randomSchedule(unsigned seed, const v1::BuildUnit& unit, v1::Schedule& schedule);

}  // namespace tessera::compiler::codegen::testing
