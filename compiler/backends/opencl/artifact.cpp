#include "compiler/backends/opencl/artifact.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/backends/plan_session/buffer_bytes.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

absl::Status checkLaunch(const v1::OpenClKernel& kernel, const v1::OpenClKernel::Launch& launch) {
  const std::string place = absl::StrCat("kernel ", kernel.symbol());
  const int dimensions = launch.work_items_size();
  if (dimensions < 1 || dimensions > 3 || launch.work_group_size() != dimensions)
    return damagedArtifact(absl::StrCat(place, " has ", dimensions, " dimensions"));
  for (int d = 0; d < dimensions; ++d) {
    const int64_t items = launch.work_items(d), group = launch.work_group(d);
    if (group < 1 || items < group || items % group != 0)
      return damagedArtifact(absl::StrCat(place, " shares ", items, " work-items among groups of ", group));
  }
  for (const v1::OpenClKernel::Argument& argument : launch.arguments()) {
    if (argument.buffer() < 0 || argument.buffer() >= kernel.buffers_size())
      return damagedArtifact(absl::StrCat(place, " has no buffer ", argument.buffer()));
    // Weights and inputs are not written.
    if (argument.written() && argument.buffer() < kernel.operands() - kernel.results())
      return damagedArtifact(absl::StrCat(place, " writes its argument ", argument.buffer()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpenClArtifact>> OpenClArtifact::open(ArtifactFile file, bool verify_weights) {
  std::unique_ptr<OpenClArtifact> artifact(new OpenClArtifact(std::move(file)));
  TESSERA_RETURN_IF_ERROR(artifact->readMessage(kLaunchesEntry, artifact->program_));
  TESSERA_ASSIGN_OR_RETURN(const std::span<const uint8_t> source, artifact->readEntry(kSourceEntry));
  artifact->source_ = {reinterpret_cast<const char*>(source.data()), source.size()};
  TESSERA_RETURN_IF_ERROR(artifact->readPlan(verify_weights));
  TESSERA_RETURN_IF_ERROR(artifact->checkKernels(artifact->program_.kernels()));
  TESSERA_RETURN_IF_ERROR(artifact->checkLaunches());
  return artifact;
}

absl::Status OpenClArtifact::checkLaunches() const {
  for (const v1::OpenClKernel& kernel : program_.kernels()) {
    for (const v1::SpatialKernel::Buffer& buffer : kernel.buffers())
      if (bufferBytes(buffer) < 0)
        return damagedArtifact(absl::StrCat("kernel ", kernel.symbol(), " has a buffer without a size"));
    for (const v1::OpenClKernel::Launch& launch : kernel.launches())
      TESSERA_RETURN_IF_ERROR(checkLaunch(kernel, launch));
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::opencl
