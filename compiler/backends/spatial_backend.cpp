#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/backends/backend.h"
#include "compiler/backends/kernel_check.h"
#include "compiler/backends/spatial/kernel.h"
#include "compiler/backends/spatial_kernel.h"
#include "compiler/schedule/chip_words.h"
#include "compiler/schedule/summary.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/product_factors.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// INVALID_TARGET for a nest that no unit of the chip runs.
absl::Status unscheduled(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kFailedPrecondition) return status;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  failure.set_message(std::string(status.message()));
  failure.set_attribute("units");
  failure.set_fix("compile for a chip whose vector unit runs it, or describe such a unit with its rates");
  return failureStatus(failure);
}

/// INVALID_SCHEDULE unless the schedule fits.
absl::StatusOr<std::unique_ptr<simulator::LoadedKernel>> loaded(const v1::SpatialKernel& kernel,
                                                                const v1::Target& target) {
  absl::StatusOr<std::unique_ptr<simulator::LoadedKernel>> result = simulator::LoadedKernel::load(kernel, target);
  if (result.ok()) return result;
  return failureStatus(v1::Failure::INVALID_SCHEDULE, std::string(result.status().message()));
}

/// Whether a nest sums products without an instruction.
bool multipliesOnVectors(const v1::SpatialKernel& kernel) {
  const auto sumsProducts = [](const v1::SpatialKernel::Nest& nest) {
    const auto multiplies = [](const auto& each) { return each.name() == "mulf" || each.name() == "muli"; };
    return std::ranges::any_of(nest.body(), multiplies) &&
           std::ranges::any_of(nest.loops(), [](const auto& loop) { return loop.name().starts_with("r"); });
  };
  const std::vector<const v1::Tile*> leaves = leavesOf(kernel.schedule());
  return std::ranges::any_of(leaves, [&](const v1::Tile* leaf) {
    const int nest = leaf->kernel().nest();
    return leaf->kernel().variant() == words::kVector && nest >= 0 && nest < kernel.nests_size() &&
           sumsProducts(kernel.nests(nest));
  });
}

/// Says why nests multiply on a vector unit, if the schedule is the proposed one.
void addRefusal(v1::SpatialKernel& kernel, const v1::Target& target) {
  if (!multipliesOnVectors(kernel)) return;
  v1::SpatialKernel proposed = kernel;
  if (!simulator::scheduleKernel(proposed, target).ok()) return;
  if (deterministicBytes(proposed.schedule()) == deterministicBytes(kernel.schedule()))
    kernel.set_refusal(proposed.refusal());
}

/// Workloads as loop nests with schedules, which the simulator runs (compiler/backends/spatial).
class SpatialBackend final : public Backend {
 public:
  CodeFacts facts(const v1::Target& target, bool scalar) const override {
    CodeFacts facts{.register_tiles = false, .slices = false, .prepares_weights = false, .ranges = false};
    if (scalar) return facts;
    facts.factors = roundedFactors(target);
    const auto isByte = [](v1::DataType type) { return type == v1::DATA_TYPE_I8 || type == v1::DATA_TYPE_U8; };
    for (const ProductFactors& each : productFactors(target))
      if (isByte(each.first) && isByte(each.second) && each.sum == v1::DATA_TYPE_I32)
        facts.bytes.push_back({each.first == v1::DATA_TYPE_I8, each.second == v1::DATA_TYPE_I8});
    return facts;
  }

  google::protobuf::RepeatedPtrField<v1::Intrinsic> instructions(const v1::Target& target) const override {
    const std::vector<v1::Intrinsic> all = instructionsOf(target);
    google::protobuf::RepeatedPtrField<v1::Intrinsic> found;
    found.Assign(all.begin(), all.end());
    return found;
  }

  absl::StatusOr<v1::Schedule> propose(const v1::BuildUnit& unit, const Proposal& wanted) const override {
    if (wanted.slices.order_size() > 0)
      return failureStatus(v1::Failure::INVALID_INPUT, "programs of described chips do not run slice by slice");
    TESSERA_ASSIGN_OR_RETURN(v1::SpatialKernel kernel, spatial::kernelOf(unit));
    const absl::Status status = simulator::scheduleKernel(kernel, spatial::targetOf(unit), {.scalar = wanted.scalar});
    if (!status.ok()) return unscheduled(status);
    return std::move(*kernel.mutable_schedule());
  }

  absl::Status validate(const v1::BuildUnit& unit) const override {
    TESSERA_ASSIGN_OR_RETURN(const v1::SpatialKernel kernel, spatial::scheduledKernelOf(unit));
    return loaded(kernel, spatial::targetOf(unit)).status();
  }

  absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit) const override {
    TESSERA_ASSIGN_OR_RETURN(v1::SpatialKernel kernel, spatial::scheduledKernelOf(unit));
    const v1::Target target = spatial::targetOf(unit);
    TESSERA_RETURN_IF_ERROR(loaded(kernel, target).status());
    addRefusal(kernel, target);
    v1::BuiltObject built;
    built.mutable_info()->set_workload_hash(unit.workload_hash());
    built.mutable_info()->set_num_results(kernel.results());
    built.set_object(deterministicBytes(kernel));
    return built;
  }

  absl::StatusOr<std::vector<v1::VerifiedStep>> verify(const v1::BuildUnit& unit,
                                                       const v1::BuiltObject& built) const override {
    v1::SpatialKernel kernel;
    if (!kernel.ParseFromString(built.object()))
      return failureStatus(v1::Failure::INTERNAL, absl::StrCat("the kernel of ", unit.symbol(), " does not parse"));
    const v1::Target target = spatial::targetOf(unit);
    TESSERA_ASSIGN_OR_RETURN(const auto program, loaded(kernel, target));
    const auto run = [&](const std::vector<std::string>& arguments,
                         const std::vector<int64_t>& result_bytes) -> absl::StatusOr<std::vector<std::string>> {
      std::vector<std::string> memory = arguments;
      for (int64_t bytes : result_bytes) memory.emplace_back(static_cast<size_t>(bytes), '\xff');
      std::vector<uint8_t*> operands;
      for (std::string& operand : memory) operands.push_back(reinterpret_cast<uint8_t*>(operand.data()));
      TESSERA_RETURN_IF_ERROR(program->run(operands));
      return std::vector<std::string>(memory.begin() + static_cast<int64_t>(arguments.size()), memory.end());
    };
    return verification::checkKernel(unit, run);
  }
};

}  // namespace

const Backend& spatialBackend() {
  static const SpatialBackend backend;
  return backend;
}

}  // namespace tessera::compiler
