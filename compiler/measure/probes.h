#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/measure/bench.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Derives a figure from the times of one round.
struct Formula {
  std::string field, unit, how;
  std::vector<size_t> sources;  ///< positions among the series
  std::function<double(const std::vector<double>&)> value;
  int cores = 1;
};

struct Probes {
  std::vector<Series> series;
  std::vector<Formula> formulas;  ///< the frequency first
  std::shared_ptr<void> owner;    ///< owns the objects that the functions refer to
};

/// All measurements for a host with this description. `multiply_add`: position of its intrinsic among the target's own
/// entries, or -1. The result refers to `target` and `bench`.
Probes probesOf(const v1::Target& target, Bench& bench, int multiply_add);

}  // namespace tessera::compiler
