#pragma once

#include <string>
#include <vector>

#include "compiler/cost/dataflow.h"

/// Energy and busy cycles of each memory level of a dataflow.
namespace tessera::compiler::cost {

struct LevelBreakdown {
  std::string name;
  double energy_pj = 0;  ///< of its accesses
  /// Cycles that the ports of one instance are busy, of the instances in use. A level bounds the run if they are close
  /// to its cycles.
  double read_cycles = 0, write_cycles = 0;
};
struct Breakdown {
  std::vector<LevelBreakdown> levels;  ///< innermost first
  double operations_pj = 0;
};

/// The parts add up to the energy of the cost. `machine` is the one that the cost was computed for.
Breakdown breakdownOf(const DataflowCost& cost, const Machine& machine);

}  // namespace tessera::compiler::cost
