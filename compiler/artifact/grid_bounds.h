#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// A bound of one dimension of a phase's grid (tessera_module_grid_bound in runtime/module_abi.h, with an example). A
/// run of n rows, the product of its sizes of `ranges`, needs only the first min(count, ceil(n * numerator /
/// denominator) + slack) of the `count` iterations, each of `inner` cells.
struct GridBound {
  int32_t phase = 0;
  uint32_t ranges = 1;  ///< bits: positions in Plan.dimensions
  int64_t count = 1, inner = 1;
  int64_t numerator = 1, denominator = 1, slack = 0;
  bool operator==(const GridBound&) const = default;
};

/// The parts of a step's grids that a run below the range's greatest size can skip: cells that write only rows beyond
/// the run's count. Ascending by phase; the bounds of one phase are of different dimensions, slowest first. Depends
/// only on `step.rows` and the kernel's walks. `plan` must contain `step`.
std::vector<GridBound> gridBoundsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel);

}  // namespace tessera::compiler
