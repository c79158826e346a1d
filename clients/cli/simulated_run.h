#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "clients/cli/local_run.h"
#include "compiler/runtime/artifact_reader.h"
#include "tessera/v1/spatial.pb.h"

/// `tessera run` of an artifact for a described chip: the program runs on the simulator.
namespace tessera::client {

struct SimulatedRunFlags {
  std::string timeline;    ///< .svg, or .json for Perfetto; empty: not written
  bool cost_only = false;  ///< computes time, energy and traffic without running the program on data

  /// Returns whether a flag is set that an artifact of machine code does not support.
  bool any() const { return cost_only || !timeline.empty(); }
  void addTo(CLI::App* command);
};

struct SimulatedRunRequest {
  compiler::ArtifactFile file;
  const RunInputs& inputs;
  std::string output_folder;
  bool steps = false, verify_weights = false;
  SimulatedRunFlags flags;
};

/// "12345 cycles, 0.0123 ms, 4.5 uJ (simulated)", then tables of memories and units.
std::string simulatedText(const v1::SimulatedRun& cost);

/// Runs the program once and prints cycles, time, energy, traffic of each memory level and use of each unit, all of
/// which are those of the described chip. Returns the exit code. The artifact needs no trusted signature, because it
/// has no native code.
int runSimulated(const CommandLine& line, const SimulatedRunRequest& request);

}  // namespace tessera::client
