#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/backends/backend.h"
#include "compiler/backends/kernel_check.h"
#include "compiler/backends/opencl/driver.h"
#include "compiler/backends/opencl/kernel_code.h"
#include "compiler/backends/opencl/kernel_run.h"
#include "compiler/backends/spatial_kernel.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::StatusOr<v1::OpenClKernel> writtenKernel(const v1::BuildUnit& unit) {
  TESSERA_ASSIGN_OR_RETURN(const v1::SpatialKernel kernel, spatial::scheduledKernelOf(unit));
  return opencl::writeKernel(kernel, spatial::targetOf(unit));
}

/// Writes each loop nest of a workload as a function of OpenCL C (compiler/backends/opencl).
class OpenClBackend final : public Backend {
 public:
  CodeFacts facts(const v1::Target&, bool) const override {
    return {.register_tiles = false, .slices = false, .prepares_weights = false, .ranges = false};
  }

  google::protobuf::RepeatedPtrField<v1::Intrinsic> instructions(const v1::Target&) const override { return {}; }

  absl::StatusOr<v1::Schedule> propose(const v1::BuildUnit& unit, const Proposal& wanted) const override {
    if (wanted.slices.order_size() > 0)
      return failureStatus(v1::Failure::INVALID_INPUT, "programs of OpenCL devices do not run slice by slice");
    TESSERA_ASSIGN_OR_RETURN(v1::SpatialKernel kernel, spatial::kernelOf(unit));
    TESSERA_RETURN_IF_ERROR(opencl::scheduleKernel(kernel, spatial::targetOf(unit), wanted.scalar));
    return std::move(*kernel.mutable_schedule());
  }

  absl::Status validate(const v1::BuildUnit& unit) const override { return writtenKernel(unit).status(); }

  absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit) const override {
    TESSERA_ASSIGN_OR_RETURN(const v1::OpenClKernel kernel, writtenKernel(unit));
    v1::BuiltObject built;
    built.mutable_info()->set_workload_hash(unit.workload_hash());
    built.mutable_info()->set_num_results(kernel.results());
    built.set_object(deterministicBytes(kernel));
    return built;
  }

  absl::StatusOr<std::vector<v1::VerifiedStep>> verify(const v1::BuildUnit& unit,
                                                       const v1::BuiltObject& built) const override {
    v1::OpenClKernel kernel;
    if (!kernel.ParseFromString(built.object()))
      return failureStatus(v1::Failure::INTERNAL, absl::StrCat("the kernel of ", unit.symbol(), " does not parse"));
    if (const absl::Status missing = opencl::firstDevice().status(); !missing.ok()) {
      v1::Failure failure;
      failure.set_reason(v1::Failure::INCOMPATIBLE_HOST);
      failure.set_message(
          absl::StrCat("kernels of OpenCL devices are verified on a device, and the compiler's process has "
                       "none (tasks of workers never have): ",
                       missing.message()));
      failure.set_fix("compile without verification");
      return failureStatus(failure);
    }
    const auto run = [&](const std::vector<std::string>& arguments, const std::vector<int64_t>&) {
      return opencl::runKernel(kernel, arguments);
    };
    return verification::checkKernel(unit, run);
  }
};

}  // namespace

const Backend& openClBackend() {
  static const OpenClBackend backend;
  return backend;
}

}  // namespace tessera::compiler
