#include "compiler/backends/backend.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/kernel_check.h"
#include "compiler/target/dot_product.h"

namespace tessera::compiler {
namespace {

/// Vector code of processors (compiler/backends/cpu).
class ProcessorBackend final : public Backend {
 public:
  CodeFacts facts(const v1::Target&, bool) const override { return {}; }
  google::protobuf::RepeatedPtrField<v1::Intrinsic> instructions(const v1::Target& target) const override {
    return usableInstructions(target);
  }
  absl::StatusOr<v1::Schedule> propose(const v1::BuildUnit& unit, const Proposal& wanted) const override {
    return defaultSchedule(unit, {.slices = wanted.slices, .scalar = wanted.scalar});
  }
  absl::Status validate(const v1::BuildUnit& unit) const override { return checkSchedule(unit); }
  absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit) const override { return buildObject(unit); }
  absl::StatusOr<std::vector<v1::VerifiedStep>> verify(const v1::BuildUnit& unit,
                                                       const v1::BuiltObject& built) const override {
    return verification::checkKernel(unit, built);
  }
};

}  // namespace

const Backend& processorBackend() {
  static const ProcessorBackend backend;
  return backend;
}

}  // namespace tessera::compiler
