#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/runtime/module_abi.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// The tables of the runtime (compiler/runtime/module_abi.h) for a plan whose steps a session runs itself: each step is
/// one phase without code. With them a session selects variants, checks inputs and runs loops as the runtime does.
class PlanTables {
 public:
  /// Fails with INVALID_ARGUMENT naming the entry at fault; afterwards every index in module() and in the plan is
  /// valid. Plans come from untrusted files. `plan` must outlive the tables.
  static absl::StatusOr<std::unique_ptr<PlanTables>> make(const v1::Plan& plan);

  PlanTables(const PlanTables&) = delete;
  PlanTables& operator=(const PlanTables&) = delete;

  const tessera_module& module() const { return module_; }

 private:
  /// The arrays of one variant.
  struct Variant {
    std::vector<tessera_module_dimension> dimensions;
    std::vector<tessera_module_tensor> inputs, outputs;
    std::vector<tessera_module_buffer> buffers;
    std::vector<tessera_module_step> steps;
    std::vector<tessera_module_extent> extents;
    std::vector<tessera_module_loop> loops;
    std::vector<const char*> fault_messages;
    // Arrays within entries; a vector's elements stay where they are when the outer vector grows.
    std::vector<std::vector<tessera_module_carried>> carried;
    std::vector<std::vector<tessera_module_scan>> scans;
  };

  PlanTables() = default;
  absl::Status fill(const v1::Plan& plan);
  static std::unique_ptr<Variant> variantOf(const v1::Plan& plan, const v1::Plan& variant);
  static tessera_module_variant tableOf(const v1::Plan& plan, const Variant& arrays);

  std::vector<std::unique_ptr<Variant>> arrays_;
  std::vector<tessera_module_variant> variants_;
  std::vector<tessera_module_fixed_input> fixed_inputs_;
  tessera_module module_ = {};
};

}  // namespace tessera::compiler
