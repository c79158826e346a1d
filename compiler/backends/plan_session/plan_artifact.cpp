#include "compiler/backends/plan_session/plan_artifact.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/plan_session/buffer_bytes.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status statusOf(const RuntimeStatus& status) {
  return status.ok() ? absl::OkStatus() : absl::InvalidArgumentError(status.message());
}

}  // namespace

absl::Status damagedArtifact(const std::string& reason) {
  return absl::InvalidArgumentError(absl::StrCat("the artifact is damaged: ", reason));
}

int64_t bufferBytes(const v1::SpatialKernel::Buffer& buffer) {
  int64_t bytes = elementBytes(buffer.dtype());
  for (const int64_t extent : buffer.shape())
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  return bytes;
}

absl::StatusOr<std::span<const uint8_t>> PlanArtifact::readEntry(std::string_view name) const {
  std::span<const uint8_t> bytes;
  TESSERA_RETURN_IF_ERROR(statusOf(file_.read(name, &bytes)));
  return bytes;
}

absl::Status PlanArtifact::readMessage(std::string_view name, google::protobuf::MessageLite& message) const {
  TESSERA_ASSIGN_OR_RETURN(const std::span<const uint8_t> bytes, readEntry(name));
  if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return damagedArtifact(absl::StrCat(std::string(name), " does not parse"));
  return absl::OkStatus();
}

absl::Status PlanArtifact::readPlan(bool verify_weights) {
  TESSERA_RETURN_IF_ERROR(readMessage(kManifestEntry, manifest_));
  TESSERA_RETURN_IF_ERROR(readMessage(kPlanEntry, plan_));
  if (const ZipEntry* entry = file_.find(kWeightsEntry)) {
    weights_ = file_.bytes(*entry);
    if (verify_weights) {
      TESSERA_ASSIGN_OR_RETURN(weights_, readEntry(kWeightsEntry));
    }
  }
  if (static_cast<int64_t>(weights_.size()) != plan_.weights_bytes())
    return damagedArtifact(
        absl::StrCat("it has ", weights_.size(), " bytes of weights, its plan expects ", plan_.weights_bytes()));
  TESSERA_ASSIGN_OR_RETURN(tables_, PlanTables::make(plan_));
  return absl::OkStatus();
}

absl::Status PlanArtifact::checkInterfaces(std::span<const KernelInterface> kernels) const {
  if (static_cast<int>(kernels.size()) != plan_.workloads_size())
    return damagedArtifact(
        absl::StrCat("it has ", kernels.size(), " kernels for ", plan_.workloads_size(), " workloads"));
  for (const KernelInterface& kernel : kernels)
    if (kernel.results < 0 || kernel.results > kernel.operands || kernel.operands > kernel.buffers->size())
      return damagedArtifact(absl::StrCat("kernel ", kernel.symbol, " has ", kernel.operands, " operands and ",
                                          kernel.results, " results"));
  for (size_t v = 0; v < variants(); ++v) {
    for (const v1::Step& step : variant(v).steps()) {
      const KernelInterface& kernel = kernels[static_cast<size_t>(step.workload())];
      if (kernel.operands != step.operands_size())
        return damagedArtifact(absl::StrCat("kernel ", kernel.symbol, " has ", kernel.operands,
                                            " operands, a step passes ", step.operands_size()));
      for (int i = 0; i < kernel.operands; ++i) {
        const int64_t passed = variant(v).buffers(step.operands(i)).size_bytes();
        const int64_t taken = bufferBytes(kernel.buffers->Get(i));
        if (taken == passed) continue;
        return damagedArtifact(absl::StrCat("operand ", i, " of kernel ", kernel.symbol, " has ", taken,
                                            " bytes, a step passes ", passed));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
