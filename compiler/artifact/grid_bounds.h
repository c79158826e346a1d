#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// A level of a phase's grid of which a run of few rows needs the first part only. With n the product of the run's rows
/// of the ranges, it needs min(count, ceil(n * numerator / denominator) + slack) of the `count` steps, each of `inner`
/// cells.
struct Cut {
  int32_t phase = 0;
  uint32_t ranges = 1;  ///< bits: positions in Plan.dimensions
  int64_t count = 1, inner = 1;
  int64_t numerator = 1, denominator = 1, slack = 0;
  bool operator==(const Cut&) const = default;
};

/// The parts of a step's grids that a run below the range's greatest size can skip: cells that write only rows beyond
/// the run's count. Ascending by phase; the cuts of one phase cut different levels, slowest first. Depends only on
/// `step.rows` and the kernel's walks. `plan` must contain `step`.
std::vector<Cut> gridBoundsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel);

}  // namespace tessera::compiler
