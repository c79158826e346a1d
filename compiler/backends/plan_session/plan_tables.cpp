#include "compiler/backends/plan_session/plan_tables.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/runtime/module_image.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Never called: the session runs the steps.
void noCode(void* const* /*operands*/, int64_t /*lo*/, int64_t /*hi*/, void* /*workspace*/, void* /*scratch*/) {}

constexpr tessera_module_phase kPhase = {.fn = noCode, .grid = 1};

absl::Status damaged(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the artifact's plan is inconsistent: ", what));
}

/// Bytes of a dense tensor; -1 if its size overflows, which checkModule() reports.
int64_t sizeOf(const v1::TensorSpec& spec) {
  int64_t size = elementBytes(spec.dtype());
  for (const int64_t extent : spec.shape())
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) return -1;
  return size;
}

tessera_module_tensor tensorOf(const v1::TensorSpec& spec) {
  return {.name = spec.name().c_str(),
          .dtype = spec.dtype(),
          .rank = spec.shape_size(),
          .shape = spec.shape().data(),
          .size_bytes = sizeOf(spec),
          .ranges = nullptr};
}

int32_t orNone(bool present, int32_t position) { return present ? position : -1; }

/// Checks what the tables' own checks assume or cannot see.
absl::Status checkPlan(const v1::Plan& plan, const v1::Plan& variant) {
  if (variant.inputs_size() != plan.inputs_size() || variant.outputs_size() != plan.outputs_size())
    return damaged("its variants have different numbers of inputs or outputs");
  if (variant.has_preparation() || variant.arena_size() > 0)
    return damaged("programs that run from a plan have static shapes and stored weights only");
  for (const v1::DimensionBinding& dimension : variant.dimensions())
    if (dimension.size() < 0) return damaged(absl::StrCat("dimension ", dimension.name(), " is a range"));
  for (int s = 0; s < variant.steps_size(); ++s) {
    const int workload = variant.steps(s).workload();
    if (workload < 0 || workload >= plan.workloads_size())
      return damaged(absl::StrCat("step ", s, " runs workload ", workload, " of ", plan.workloads_size()));
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<PlanTables::Variant> PlanTables::variantOf(const v1::Plan& plan, const v1::Plan& variant) {
  auto arrays = std::make_unique<Variant>();
  for (const v1::DimensionBinding& each : variant.dimensions())
    arrays->dimensions.push_back({.name = each.name().c_str(), .size = each.size()});
  for (const v1::TensorSpec& each : variant.inputs()) arrays->inputs.push_back(tensorOf(each));
  for (const v1::TensorSpec& each : variant.outputs()) arrays->outputs.push_back(tensorOf(each));
  for (const v1::Buffer& each : variant.buffers()) {
    const bool callers = each.kind() == v1::Buffer::INPUT || each.kind() == v1::Buffer::OUTPUT;
    arrays->buffers.push_back({.kind = each.kind(),
                               .index = each.index(),
                               .offset = callers ? 0 : each.offset(),
                               .size_bytes = each.size_bytes()});
  }
  for (const v1::Step& each : variant.steps()) {
    const v1::Workload& workload = plan.workloads(each.workload());
    tessera_module_step& step = arrays->steps.emplace_back();
    step.name = each.name().c_str();
    step.symbol = workload.symbol().c_str();
    step.phases = &kPhase;
    step.num_phases = 1;
    step.num_operands = each.operands_size();
    step.operands = each.operands().data();
    step.flops = workload.flops();
  }
  for (const v1::RuntimeExtent& each : variant.runtime_extents())
    arrays->extents.push_back(
        {.output = each.output(), .dimension = each.dimension(), .buffer = each.buffer(), .reserved = 0});
  for (const std::string& each : variant.run_faults().messages()) arrays->fault_messages.push_back(each.c_str());
  for (const v1::StepLoop& each : variant.loops()) {
    std::vector<tessera_module_carried>& carried = arrays->carried.emplace_back();
    for (const v1::StepLoop::Carried& value : each.carried())
      carried.push_back({.initial = value.initial(),
                         .before = value.before(),
                         .after = value.after(),
                         .result = value.result(),
                         .spare = value.spare()});
    std::vector<tessera_module_scan>& scans = arrays->scans.emplace_back();
    for (const v1::StepLoop::Scan& scan : each.scans())
      scans.push_back({.whole = scan.whole(),
                       .part = scan.part(),
                       .written = scan.written() ? 1 : 0,
                       .reversed = scan.reversed() ? 1 : 0});
    arrays->loops.push_back({.first_step = each.first_step(),
                             .last_step = each.last_step(),
                             .max_iterations = each.max_iterations(),
                             .trip_count = orNone(each.has_trip_count(), each.trip_count()),
                             .initial_condition = orNone(each.has_initial_condition(), each.initial_condition()),
                             .condition = orNone(each.has_condition(), each.condition()),
                             .iteration = orNone(each.has_iteration(), each.iteration()),
                             .executed = orNone(each.has_executed(), each.executed()),
                             .num_carried = static_cast<int32_t>(carried.size()),
                             .carried = carried.data(),
                             .scans = scans.data(),
                             .num_scans = static_cast<int32_t>(scans.size()),
                             .reserved = 0});
  }
  return arrays;
}

tessera_module_variant PlanTables::tableOf(const v1::Plan& plan, const Variant& arrays) {
  const auto count = [](const auto& array) { return static_cast<int32_t>(array.size()); };
  tessera_module_variant table = {};
  table.dimensions = arrays.dimensions.data();
  table.inputs = arrays.inputs.data();
  table.outputs = arrays.outputs.data();
  table.buffers = arrays.buffers.data();
  table.steps = arrays.steps.data();
  table.extents = arrays.extents.data();
  table.loops = arrays.loops.data();
  table.fault_messages = arrays.fault_messages.data();
  table.num_dimensions = count(arrays.dimensions);
  table.num_buffers = count(arrays.buffers);
  table.num_steps = count(arrays.steps);
  table.num_extents = count(arrays.extents);
  table.num_loops = count(arrays.loops);
  table.num_fault_messages = count(arrays.fault_messages);
  table.fault_buffer = arrays.fault_messages.empty() ? -1 : plan.run_faults().buffer();
  table.arena_bytes = plan.arena_bytes();
  return table;
}

absl::Status PlanTables::fill(const v1::Plan& plan) {
  std::vector<const v1::Plan*> plans = {&plan};
  for (const v1::Plan& variant : plan.variants()) plans.push_back(&variant);
  for (const v1::Plan* each : plans) {
    TESSERA_RETURN_IF_ERROR(checkPlan(plan, *each));
    arrays_.push_back(variantOf(plan, *each));
    variants_.push_back(tableOf(*each, *arrays_.back()));
  }
  for (int i = 0; i < plan.inputs_size(); ++i) {
    for (const auto& [values, may_differ] : {std::pair(&plan.fixed_inputs(), 0), {&plan.default_inputs(), 1}}) {
      for (const v1::TensorValue& known : *values) {
        if (known.spec().name() != plan.inputs(i).name()) continue;
        fixed_inputs_.push_back({.input = i,
                                 .may_differ = may_differ,
                                 .data = known.data().data(),
                                 .size_bytes = static_cast<int64_t>(known.data().size())});
      }
    }
  }
  module_.abi_version = TESSERA_MODULE_ABI;
  module_.num_variants = static_cast<int32_t>(variants_.size());
  module_.compiler_version = plan.compiler_version().c_str();
  module_.triple = "";
  module_.features = "";
  module_.num_inputs = plan.inputs_size();
  module_.num_outputs = plan.outputs_size();
  module_.variants = variants_.data();
  module_.weights_bytes = plan.weights_bytes();
  module_.num_fixed_inputs = static_cast<int32_t>(fixed_inputs_.size());
  module_.fixed_inputs = fixed_inputs_.data();
  // The arrays are this object's own, so every address is readable; the check is about their content.
  const std::array<ImageSegment, 1> everything = {{{.begin = 0, .end = UINTPTR_MAX, .executable = true}}};
  const RuntimeStatus status =
      checkModule(&module_, everything, {}, static_cast<uint64_t>(std::max<int64_t>(plan.weights_bytes(), 0)));
  return status.ok() ? absl::OkStatus() : absl::InvalidArgumentError(status.message());
}

absl::StatusOr<std::unique_ptr<PlanTables>> PlanTables::make(const v1::Plan& plan) {
  std::unique_ptr<PlanTables> tables(new PlanTables());
  TESSERA_RETURN_IF_ERROR(tables->fill(plan));
  return tables;
}

}  // namespace tessera::compiler
