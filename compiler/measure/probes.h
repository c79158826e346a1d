#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/measure/bench.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// How a figure follows from what was timed in one round.
struct Formula {
  std::string field, unit, how;
  std::vector<size_t> sources;  ///< among the series
  std::function<double(const std::vector<double>&)> value;
  int cores = 1;
};

struct Probes {
  std::vector<Series> series;
  std::vector<Formula> formulas;  ///< the frequency first
  std::shared_ptr<void> owner;    ///< of what they refer to
};

/// All that is measured, for a host of this description. `multiply_add` is the place of its intrinsic among the
/// target's own, or -1. They refer to the target and the bench.
Probes probesOf(const v1::Target& target, Bench& bench, int multiply_add);

}  // namespace tessera::compiler
