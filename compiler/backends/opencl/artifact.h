#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/backends/plan_session/plan_artifact.h"
#include "compiler/runtime/artifact_reader.h"
#include "tessera/v1/opencl.pb.h"

namespace tessera::compiler::opencl {

/// An opened artifact for OpenCL devices (family OPENCL). Immutable; sessions share it.
class OpenClArtifact final : public PlanArtifact {
 public:
  /// Whether the file is an artifact for an OpenCL device.
  static bool isOne(const ArtifactFile& file) { return file.find(kLaunchesEntry) != nullptr; }

  /// Reads and checks everything except the weights' content, which `verify_weights` adds. Needs no device. Fails with
  /// INVALID_ARGUMENT naming the entry or the kernel at fault.
  static absl::StatusOr<std::unique_ptr<OpenClArtifact>> open(ArtifactFile file, bool verify_weights = false);

  const v1::OpenClProgram& program() const { return program_; }
  std::string_view source() const { return source_; }

 private:
  using PlanArtifact::PlanArtifact;
  absl::Status checkLaunches() const;

  v1::OpenClProgram program_;
  std::string_view source_;
};

}  // namespace tessera::compiler::opencl
