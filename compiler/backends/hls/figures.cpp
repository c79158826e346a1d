#include "compiler/backends/hls/figures.h"

#include "compiler/backends/hls/stages.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {

absl::StatusOr<Figures> figuresOf(const Program& program, const Device& device) {
  Figures figures;
  double bytes = 0, dsp_cycles = 0;
  bool simulated = true;
  for (const Design& design : program.designs) {
    const absl::StatusOr<SimulatedStages> stages = simulateStages(design, device);
    simulated &= stages.ok();
    figures.simulated_cycles += stages.ok() ? stages->cycles : 0;
    bytes += movedBytes(design, device);
    TESSERA_ASSIGN_OR_RETURN(const Resources element, elementOf(*design.form, device));
    dsp_cycles += design.form->points() * static_cast<double>(element.dsp);
  }
  if (!simulated) figures.simulated_cycles = 0;
  if (program.cycles <= 0) return figures;
  figures.seconds = program.cycles / (device.gigahertz() * 1e9);
  figures.gigaops = program.floatingOperations() / figures.seconds / 1e9;
  figures.dsp_share = dsp_cycles / (program.cycles * static_cast<double>(device.limits().dsp));
  figures.bandwidth_share = bytes / (program.cycles * device.bankBytesPerCycle() * static_cast<double>(device.banks()));
  return figures;
}

}  // namespace tessera::compiler::hls
