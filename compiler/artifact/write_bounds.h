#pragma once

#include <cstdint>
#include <vector>

#include "compiler/artifact/grid_bounds.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// The number of leading bytes that a phase of a step may write of one of its results: it writes no byte at or after
/// `base` + the sum of the terms. If a grid bound leaves k iterations, its term is min(most, bytes * ceil(k * numerator
/// / denominator)).
struct WriteBound {
  struct Term {
    int32_t grid_bound = 0;  ///< position in the step's grid bounds
    int64_t numerator = 1, denominator = 1;
    int64_t bytes = 0, most = 0;
    bool operator==(const Term&) const = default;
  };
  int32_t operand = 0;
  int64_t base = 0;
  std::vector<Term> terms;
  bool operator==(const WriteBound&) const = default;
};

/// For results of which a run of few rows writes only the leading bytes: how many each phase writes, ascending by
/// operand. `grid_bounds`: the result of gridBoundsOf() for the step. Contains nothing for results that some phase may
/// write to the end in any run.
std::vector<WriteBound> writeBoundsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel,
                                      const std::vector<GridBound>& grid_bounds);

}  // namespace tessera::compiler
