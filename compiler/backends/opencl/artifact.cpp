#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/backends/opencl/buffer_bytes.h"
#include "compiler/backends/opencl/session.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

absl::Status damaged(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the artifact is damaged: ", what));
}

absl::Status statusOf(const RuntimeStatus& status) {
  return status.ok() ? absl::OkStatus() : absl::InvalidArgumentError(status.message());
}

template <typename Message>
absl::Status parseEntry(const ArtifactFile& file, std::string_view name, Message& message) {
  std::span<const uint8_t> bytes;
  TESSERA_RETURN_IF_ERROR(statusOf(file.read(name, &bytes)));
  if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return damaged(absl::StrCat(std::string(name), " does not parse"));
  return absl::OkStatus();
}

absl::Status checkLaunch(const v1::OpenClKernel& kernel, const v1::OpenClKernel::Launch& launch) {
  const std::string place = absl::StrCat("kernel ", kernel.symbol());
  const int dimensions = launch.work_items_size();
  if (dimensions < 1 || dimensions > 3 || launch.work_group_size() != dimensions)
    return damaged(absl::StrCat(place, " has ", dimensions, " dimensions"));
  for (int d = 0; d < dimensions; ++d) {
    const int64_t items = launch.work_items(d), group = launch.work_group(d);
    if (group < 1 || items < group || items % group != 0)
      return damaged(absl::StrCat(place, " shares ", items, " work-items among groups of ", group));
  }
  for (const v1::OpenClKernel::Argument& argument : launch.arguments()) {
    if (argument.buffer() < 0 || argument.buffer() >= kernel.buffers_size())
      return damaged(absl::StrCat(place, " has no buffer ", argument.buffer()));
    // Weights and inputs are not written.
    if (argument.written() && argument.buffer() < kernel.operands() - kernel.results())
      return damaged(absl::StrCat(place, " writes its argument ", argument.buffer()));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t bytesOf(const v1::SpatialKernel::Buffer& buffer) {
  int64_t bytes = elementBytes(buffer.dtype());
  for (const int64_t extent : buffer.shape())
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  return bytes;
}

absl::StatusOr<std::unique_ptr<OpenClArtifact>> OpenClArtifact::open(ArtifactFile file, bool verify_weights) {
  std::unique_ptr<OpenClArtifact> artifact(new OpenClArtifact());
  artifact->file_ = std::move(file);
  TESSERA_RETURN_IF_ERROR(artifact->read(verify_weights));
  return artifact;
}

absl::Status OpenClArtifact::read(bool verify_weights) {
  TESSERA_RETURN_IF_ERROR(parseEntry(file_, kManifestEntry, manifest_));
  TESSERA_RETURN_IF_ERROR(parseEntry(file_, kPlanEntry, plan_));
  TESSERA_RETURN_IF_ERROR(parseEntry(file_, kLaunchesEntry, program_));
  std::span<const uint8_t> source;
  TESSERA_RETURN_IF_ERROR(statusOf(file_.read(kSourceEntry, &source)));
  source_ = {reinterpret_cast<const char*>(source.data()), source.size()};
  if (const ZipEntry* entry = file_.find(kWeightsEntry)) {
    weights_ = file_.bytes(*entry);
    if (verify_weights) TESSERA_RETURN_IF_ERROR(statusOf(file_.read(kWeightsEntry, &weights_)));
  }
  if (static_cast<int64_t>(weights_.size()) != plan_.weights_bytes())
    return damaged(
        absl::StrCat("it has ", weights_.size(), " bytes of weights, its plan expects ", plan_.weights_bytes()));
  if (program_.kernels_size() != plan_.workloads_size())
    return damaged(
        absl::StrCat("it has ", program_.kernels_size(), " kernels for ", plan_.workloads_size(), " workloads"));
  TESSERA_ASSIGN_OR_RETURN(tables_, simulator::PlanTables::make(plan_));
  return checkSteps();
}

absl::Status OpenClArtifact::checkSteps() const {
  for (const v1::OpenClKernel& kernel : program_.kernels()) {
    if (kernel.results() < 0 || kernel.results() > kernel.operands() || kernel.operands() > kernel.buffers_size())
      return damaged(absl::StrCat("kernel ", kernel.symbol(), " has ", kernel.operands(), " operands and ",
                                  kernel.results(), " results"));
    for (const v1::SpatialKernel::Buffer& buffer : kernel.buffers())
      if (bytesOf(buffer) < 0) return damaged(absl::StrCat("kernel ", kernel.symbol(), " has a buffer without a size"));
    for (const v1::OpenClKernel::Launch& launch : kernel.launches())
      TESSERA_RETURN_IF_ERROR(checkLaunch(kernel, launch));
  }
  for (size_t v = 0; v < variants(); ++v) {
    for (const v1::Step& step : variant(v).steps()) {
      const v1::OpenClKernel& kernel = program_.kernels(step.workload());
      if (kernel.operands() != step.operands_size())
        return damaged(absl::StrCat("kernel ", kernel.symbol(), " has ", kernel.operands(), " operands, a step passes ",
                                    step.operands_size()));
      for (int i = 0; i < kernel.operands(); ++i) {
        const int64_t passed = variant(v).buffers(step.operands(i)).size_bytes();
        if (bytesOf(kernel.buffers(i)) == passed) continue;
        return damaged(absl::StrCat("operand ", i, " of kernel ", kernel.symbol(), " has ", bytesOf(kernel.buffers(i)),
                                    " bytes, a step passes ", passed));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::opencl
