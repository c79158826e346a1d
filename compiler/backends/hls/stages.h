#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/backends/hls/design.h"

/// Runs the processes of a design against each other, step by step: what synthesized hardware does, without the data.
namespace tessera::compiler::hls {

struct SimulatedStages {
  double cycles = 0;
  double reading = 0, computing = 0, writing = 0;  ///< cycles in which the slowest read, compute, a write is busy
  double bytes = 0;                                ///< moved between external memory and tiles
  int64_t steps = 0;
};

/// A process starts its next step when it has finished the previous one, its inputs are there and a copy of its output
/// buffer is free. Fails with RESOURCE_EXHAUSTED for designs of more than `most_steps` steps.
absl::StatusOr<SimulatedStages> simulateStages(const Design& design, const Device& device,
                                               int64_t most_steps = int64_t{1} << 22);

}  // namespace tessera::compiler::hls
