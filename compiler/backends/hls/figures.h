#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/hls/program.h"

namespace tessera::compiler::hls {

/// Performance of a program on its device.
struct Figures {
  /// Of its processes run against each other; Program.cycles is the prediction. 0: too many steps to simulate.
  double simulated_cycles = 0;
  double seconds = 0;          ///< predicted
  double gigaops = 0;          ///< predicted arithmetic operations per second, in 10^9
  double dsp_share = 0;        ///< DSP cycles that operations use, as a fraction of those of all DSPs
  double bandwidth_share = 0;  ///< bytes moved, as a fraction of what all banks move in the time
};

/// FAILED_PRECONDITION naming the operation that the device's description has no cost for.
absl::StatusOr<Figures> figuresOf(const Program& program, const Device& device);

}  // namespace tessera::compiler::hls
