#include "clients/cli/fpga_design.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/output.h"
#include "clients/cpp/local_file.h"
#include "compiler/backends/hls/emit.h"
#include "compiler/backends/hls/figures.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

namespace hls = compiler::hls;

std::string designText(const hls::Program& program, const hls::Device& device, const hls::Figures& figures) {
  return absl::StrFormat(
      "%s on %s: %.0f cycles predicted, %s simulated (%.3f ms at %g MHz)\n"
      "%.1f GOP/s, %.1f %% of the DSPs' and %.1f %% of the memory's rate\n"
      "%s of %s\n%d designs fit of %d tried\n%s",
      program.name, device.name(), program.cycles,
      figures.simulated_cycles > 0 ? absl::StrFormat("%.0f", figures.simulated_cycles) : "too many to be",
      1e3 * figures.seconds, 1e3 * device.gigahertz(), figures.gigaops, 100 * figures.dsp_share,
      100 * figures.bandwidth_share, print(program.resources), print(device.limits()), program.count.fitting,
      program.count.tried, compiler::printSchedule(scheduleOf(program, device)));
}

std::string designJson(const hls::Program& program, const hls::Device& device, const hls::Figures& figures) {
  const auto resources = [](const hls::Resources& each) {
    return absl::StrFormat(R"({"dsp":%d,"bram":%d,"uram":%d,"lut":%d,"ff":%d})", each.dsp, each.bram, each.uram,
                           each.lut, each.ff);
  };
  return absl::StrFormat(
      R"({"name":%s,"target":%s,"engines":%d,"cycles":%.0f,"simulated_cycles":%.0f,"seconds":%.6g,"gigaops":%.6g,"dsp_share":%.4f,"bandwidth_share":%.4f,"resources":%s,"available":%s,"tried":%d,"fitting":%d,"schedule":%s})",
      jsonString(program.name), jsonString(device.name()), program.designs.size(), program.cycles,
      figures.simulated_cycles, figures.seconds, figures.gigaops, figures.dsp_share, figures.bandwidth_share,
      resources(program.resources), resources(device.limits()), program.count.tried, program.count.fitting,
      jsonString(compiler::printSchedule(scheduleOf(program, device))));
}

}  // namespace

absl::StatusOr<FpgaDesign> designForFpga(const compiler::loopnest::Nest& nest, const v1::Target& target,
                                         const std::string& name, const std::string& folder) {
  TESSERA_ASSIGN_OR_RETURN(const hls::Device device, hls::Device::of(target));
  TESSERA_ASSIGN_OR_RETURN(const v1::SpatialKernel kernel, hls::kernelOf(nest));
  TESSERA_ASSIGN_OR_RETURN(const hls::Program program, designKernel(kernel, name, device));
  TESSERA_ASSIGN_OR_RETURN(const hls::Figures figures, figuresOf(program, device));
  TESSERA_ASSIGN_OR_RETURN(const auto sources, sourcesOf(program, device));
  FpgaDesign design{.source = sources[1].text,
                    .text = designText(program, device, figures),
                    .json = designJson(program, device, figures)};
  if (folder.empty()) return design;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return fileError(failed.value(), absl::StrCat("cannot create ", folder));
  for (const hls::SourceFile& each : sources)
    TESSERA_RETURN_IF_ERROR(writeText(absl::StrCat(folder, "/", each.name), each.text));
  return design;
}

}  // namespace tessera::client
