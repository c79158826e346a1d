#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/backends/plan_session/plan_tables.h"
#include "compiler/runtime/artifact_reader.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"
#include "tessera/v1/spatial.pb.h"

namespace tessera::compiler {

/// INVALID_ARGUMENT: the artifact is damaged, with the reason.
absl::Status damagedArtifact(const std::string& reason);

/// The operands that a kernel takes from a step: its leading buffers, arguments before results.
struct KernelInterface {
  std::string symbol;
  const google::protobuf::RepeatedPtrField<v1::SpatialKernel::Buffer>* buffers = nullptr;
  int operands = 0, results = 0;
};

/// An opened artifact that has no machine code: a session runs the steps of its plan with kernels of its back end. The
/// file is untrusted. Immutable; sessions share it. A back end derives a class that adds its kernels.
class PlanArtifact {
 public:
  PlanArtifact(const PlanArtifact&) = delete;
  PlanArtifact& operator=(const PlanArtifact&) = delete;

  const v1::Manifest& manifest() const { return manifest_; }
  const v1::Plan& plan() const { return plan_; }
  /// The first variant is the plan itself.
  const v1::Plan& variant(size_t index) const {
    return index == 0 ? plan_ : plan_.variants(static_cast<int>(index) - 1);
  }
  size_t variants() const { return static_cast<size_t>(plan_.variants_size()) + 1; }
  const tessera_module& module() const { return tables_->module(); }
  std::span<const uint8_t> weights() const { return weights_; }

 protected:
  explicit PlanArtifact(ArtifactFile file) : file_(std::move(file)) {}
  ~PlanArtifact() = default;

  /// Reads manifest, plan and weights, and checks them; `verify_weights`: the content of the weights as well. Errors of
  /// this function and of the others: INVALID_ARGUMENT naming the entry or the kernel at fault.
  absl::Status readPlan(bool verify_weights);
  absl::StatusOr<std::span<const uint8_t>> readEntry(std::string_view name) const;
  absl::Status readMessage(std::string_view name, google::protobuf::MessageLite& message) const;

  /// Checks that there is a kernel for each workload of the plan and that steps pass operands of the right sizes. Call
  /// it after readPlan().
  template <typename Kernels>
  absl::Status checkKernels(const Kernels& kernels) const {
    std::vector<KernelInterface> interfaces;
    for (const auto& kernel : kernels)
      interfaces.push_back({kernel.symbol(), &kernel.buffers(), kernel.operands(), kernel.results()});
    return checkInterfaces(interfaces);
  }

 private:
  absl::Status checkInterfaces(std::span<const KernelInterface> kernels) const;

  ArtifactFile file_;
  v1::Manifest manifest_;
  v1::Plan plan_;
  std::span<const uint8_t> weights_;
  std::unique_ptr<PlanTables> tables_;
};

}  // namespace tessera::compiler
