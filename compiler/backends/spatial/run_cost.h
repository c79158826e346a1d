#pragma once

#include <map>
#include <string>

#include "compiler/backends/spatial/program.h"
#include "compiler/backends/spatial/timeline.h"
#include "compiler/backends/spatial/vector_plan.h"
#include "tessera/v1/spatial.pb.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::simulator {

/// The frequency of the chip's first unit that states one; 0: none does.
double frequencyGhz(const v1::Target& target);

/// Sums the costs of a kernel's nests, which run one after another.
class RunCost {
 public:
  explicit RunCost(const v1::Target& target);

  /// Bytes of all buffers, in the outermost memory.
  void occupy(int64_t bytes);
  /// Largest number of bytes that a cache keeps between nests; no name: there is none.
  void keep(const std::string& cache, int64_t bytes);
  void add(const std::string& nest, const Program& program, const Timeline& timeline);
  void add(const std::string& nest, const std::string& unit, const VectorCost& cost);
  void addNothing(const std::string& nest);
  v1::SimulatedRun take();

 private:
  struct Used {
    double busy_cycles = 0, operations = 0;
    double peak = 0;  ///< operations per cycle of all instances
  };
  void addVector(const std::string& unit, double cycles, double operations);
  v1::SimulatedRun::Level& level(const std::string& name);

  const v1::Target& target_;
  v1::SimulatedRun run_;
  std::map<std::string, Used> units_;
};

}  // namespace tessera::compiler::simulator
