#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// A level of a phase's grid of which a run of few rows needs the first part only: with n rows of the ranges,
/// multiplied, min(count, ceil(n * numerator / denominator) + slack) of its `count` steps, each of `inner` cells.
struct Cut {
  int32_t phase = 0;
  uint32_t ranges = 1;  ///< bits: positions in Plan.dimensions
  int64_t count = 1, inner = 1;
  int64_t numerator = 1, denominator = 1, slack = 0;
  bool operator==(const Cut&) const = default;
};

/// What a run of fewer rows than the range's greatest size can leave out of a step's grids: cells that write nothing
/// but rows beyond the run's count. Ascending by phase; those of one phase cut different levels, the slowest first.
/// Follows from `step.rows` and the walks of the kernel alone. `plan` is the one that `step` is of.
std::vector<Cut> cutsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel);

}  // namespace tessera::compiler
