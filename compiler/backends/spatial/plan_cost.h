#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/backends/spatial/kernel.h"
#include "tessera/v1/spatial.pb.h"
#include "tessera/v1/target.pb.h"

/// The cost of a run as the sum of its kernels' costs.
namespace tessera::compiler::simulator {

/// Sums the costs of kernels that run one after another.
class PlanCost {
 public:
  explicit PlanCost(const v1::Target& target) : target_(target) {}

  /// A step of the plan that ran `runs` times.
  void add(const std::string& name, const std::string& symbol, const KernelCost& cost, int64_t runs);

  /// The total, with one step for each add().
  v1::SimulatedRun take() &&;

 private:
  const v1::Target& target_;
  v1::SimulatedRun total_;
  std::map<std::string, int> levels_, units_;  // positions in total_
};

/// A part of a run for a time chart. Steps run one after another; each is a sequence of nests.
struct RunEvent {
  std::string unit;  ///< "matrix" (instructions of the description) or "vector"
  std::string name;  ///< of the nest
  std::string step;  ///< names of the originating nodes
  double start = 0;  ///< cycles since the start of the run
  double cycles = 0;
};

/// The events of a step that starts at `start`; a step that runs several times is shown once, with its total time.
std::vector<RunEvent> eventsOf(const std::string& step, const KernelCost& cost, int64_t runs, double start);

/// The events in the trace event format of Chrome, which Perfetto reads. Times are microseconds if the chip states a
/// frequency, otherwise cycles.
std::string traceJson(const std::string& chip, const std::vector<RunEvent>& events, double frequency_ghz);

}  // namespace tessera::compiler::simulator
