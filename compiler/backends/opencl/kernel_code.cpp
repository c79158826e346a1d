#include "compiler/backends/opencl/kernel_code.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/backends/opencl/function_code.h"
#include "compiler/backends/opencl/nest_plan.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {

absl::Status scheduleKernel(v1::SpatialKernel& kernel, const v1::Target& target, bool scalar) {
  TESSERA_ASSIGN_OR_RETURN(const simulator::CheckedKernel checked, simulator::checkKernel(kernel));
  const std::vector<NestPlan> plans = planKernel(checked, kernel.operands(), target, scalar);
  kernel.clear_schedule();
  for (size_t n = 0; n < plans.size(); ++n)
    *kernel.mutable_schedule()->add_phases() = treeOf(plans[n], checked.nests[n], static_cast<int>(n), target);
  return absl::OkStatus();
}

absl::StatusOr<v1::OpenClKernel> writeKernel(const v1::SpatialKernel& kernel, const v1::Target& target) {
  TESSERA_ASSIGN_OR_RETURN(const simulator::CheckedKernel checked, simulator::checkKernel(kernel));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<NestPlan> plans,
                           plansOf(kernel.schedule(), checked, kernel.operands(), target));
  const std::vector<int> fills = initialFillsOf(checked);
  v1::OpenClKernel written;
  written.set_workload_hash(kernel.workload_hash());
  written.set_symbol(kernel.symbol());
  *written.mutable_buffers() = kernel.buffers();
  written.set_operands(kernel.operands());
  written.set_results(kernel.results());
  for (size_t n = 0; n < plans.size(); ++n) {
    const NestPlan& plan = plans[n];
    const simulator::SpatialNest& nest = checked.nests[n];
    if (plan.form == NestPlan::Form::kInitial || plan.form == NestPlan::Form::kEpilogue) continue;
    const std::string function = absl::StrCat(kernel.symbol(), "_", n);
    FunctionCode code;
    const bool starts = fills[n] >= 0 && plans[static_cast<size_t>(fills[n])].form == NestPlan::Form::kInitial;
    if (plan.form == NestPlan::Form::kProduct) {
      std::optional<Epilogue> epilogue;
      if (n + 1 < plans.size() && plans[n + 1].form == NestPlan::Form::kEpilogue)
        epilogue = epilogueOf(checked, static_cast<int>(n), kernel.operands());
      code = productFunction(function, nest, checked, *matrixFormOf(nest, checked), plan.tiles, starts,
                             epilogue ? &*epilogue : nullptr);
    } else {
      const std::string start = starts ? fillCode(checked.nests[static_cast<size_t>(fills[n])]) : std::string();
      code = plan.form == NestPlan::Form::kTree ? treeFunction(function, nest, checked, plan, start)
                                                : itemsFunction(function, nest, checked, plan, start);
    }
    *written.mutable_source() += code.source;
    *written.add_launches() = std::move(code.launch);
  }
  return written;
}

}  // namespace tessera::compiler::opencl
