#include "compiler/artifact/descriptor.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/grid_bounds.h"
#include "compiler/artifact/internal_failure.h"
#include "compiler/artifact/write_bounds.h"
#include "compiler/backends/cpu/target_machine.h"
#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/tessera.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "proto/messages/element_size.h"
#include "proto/messages/plan_loops.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using llvm::Constant;
using llvm::ConstantInt;

/// Builds the structs of module_abi.h as constants, member by member in the order of that header. LLVM's natural struct
/// alignment equals that of the C ABI on every supported target.
class Tables {
 public:
  Tables(const v1::Plan& plan, const std::vector<const v1::KernelInfo*>& kernels, llvm::Module& module)
      : plan_(plan), kernels_(kernels), module_(module), context_(module.getContext()) {
    // Types in the order of members of module_abi.h; a change there changes these lines and TESSERA_MODULE_ABI.
    pointer_ = llvm::PointerType::getUnqual(context_);
    const auto i32 = llvm::Type::getInt32Ty(context_);
    const auto i64 = llvm::Type::getInt64Ty(context_);
    tensor_ = llvm::StructType::get(pointer_, i32, i32, pointer_, i64, pointer_);
    buffer_ = llvm::StructType::get(i32, i32, i64, i64);
    phase_ = llvm::StructType::get(pointer_, i64);
    grid_bound_ = llvm::StructType::get(i32, i32, i64, i64, i64, i64, i64);
    term_ = llvm::StructType::get(i32, i32, i64, i64, i64, i64);
    write_bound_ = llvm::StructType::get(i32, i32, i64, pointer_);
    step_ = llvm::StructType::get(pointer_, pointer_, pointer_, i32, i32, pointer_, i64, i64, i64, i32, i32, pointer_,
                                  pointer_, i32, i32);
    allocation_ = llvm::StructType::get(i64, i64, i32, i32);
    dimension_ = llvm::StructType::get(pointer_, i64);
    fixed_input_ = llvm::StructType::get(i32, i32, pointer_, i64);
    extent_ = llvm::StructType::get(i32, i32, i32, i32);
    refused_ = llvm::StructType::get(i32, i32, i64, i64, i64, pointer_);
    variant_ =
        llvm::StructType::get(pointer_, pointer_, pointer_, pointer_, pointer_, pointer_, pointer_, pointer_, pointer_,
                              pointer_, pointer_, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32, i64);
    state_ = llvm::StructType::get(i32, i32, i32, i32, i32, i32, pointer_);
    carried_ = llvm::StructType::get(i32, i32, i32, i32, i32);
    scan_ = llvm::StructType::get(i32, i32, i32, i32);
    loop_ = llvm::StructType::get(i32, i32, i64, i32, i32, i32, i32, i32, i32, pointer_, pointer_, i32, i32);
  }

  void emit() {
    for (const v1::KernelInfo* kernel : kernels_) phases_.push_back(phases(*kernel));
    Constant* preparation = llvm::ConstantPointerNull::get(pointer_);
    if (plan_.has_preparation())
      preparation = define(moduleEntry(plan_.preparation(), {}, preparation), llvm::GlobalValue::PrivateLinkage);
    auto* global = define(moduleEntry(plan_, fixedInputs(), preparation), llvm::GlobalValue::ExternalLinkage);
    global->setName(TESSERA_MODULE_SYMBOL);
  }

 private:
  /// For the plan, or for its preparation.
  Constant* moduleEntry(const v1::Plan& plan, const std::vector<Constant*>& fixed_inputs, Constant* preparation) {
    // A session has one workspace for all steps, so it must fit the largest.
    int64_t workspace = 0, scratch = 0;
    const auto use = [&](const v1::Plan& variant) {
      for (const v1::Step& step : variant.steps()) {
        const v1::KernelInfo& kernel = *kernels_[static_cast<size_t>(step.workload())];
        workspace = std::max(workspace, kernel.workspace_bytes());
        scratch = std::max(scratch, kernel.scratch_bytes());
      }
    };
    std::vector<Constant*> variants = {variantEntry(plan)};
    use(plan);
    for (const v1::Plan& variant : plan.variants()) {
      variants.push_back(variantEntry(variant));
      use(variant);
    }
    return llvm::ConstantStruct::getAnon(context_,
                                         {
                                             int32(TESSERA_MODULE_ABI),
                                             int32(static_cast<int64_t>(variants.size())),
                                             string(plan_.compiler_version()),
                                             string(plan_.target().code().triple()),
                                             string(absl::StrJoin(requiredFeatures(plan_.target().code()), " ")),
                                             int32(plan.inputs_size()),
                                             int32(plan.outputs_size()),
                                             table(variant_, variants),
                                             int64(workspace),
                                             int64(scratch),
                                             int64(plan_.weights_bytes()),
                                             int32(static_cast<int64_t>(fixed_inputs.size())),
                                             int32(0),
                                             table(fixed_input_, fixed_inputs),
                                             preparation,
                                         });
  }
  Constant* int32(int64_t value) const { return ConstantInt::getSigned(llvm::Type::getInt32Ty(context_), value); }
  Constant* int64(int64_t value) const { return ConstantInt::getSigned(llvm::Type::getInt64Ty(context_), value); }
  llvm::GlobalVariable* define(Constant* value, llvm::GlobalValue::LinkageTypes linkage) {
    return new llvm::GlobalVariable(module_, value->getType(), /*isConstant=*/true, linkage, value);
  }
  Constant* string(const std::string& text) {
    return define(llvm::ConstantDataArray::getString(context_, text), llvm::GlobalValue::PrivateLinkage);
  }
  Constant* table(llvm::Type* element, const std::vector<Constant*>& entries) {
    if (entries.empty()) return llvm::ConstantPointerNull::get(pointer_);
    auto* type = llvm::ArrayType::get(element, entries.size());
    return define(llvm::ConstantArray::get(type, entries), llvm::GlobalValue::PrivateLinkage);
  }

  Constant* variantEntry(const v1::Plan& plan) {
    std::vector<Constant*> dimensions, inputs, outputs, buffers, steps, allocations, loops;
    for (const v1::DimensionBinding& dimension : plan.dimensions()) {
      dimensions.push_back(llvm::ConstantStruct::get(dimension_, {string(dimension.name()), int64(dimension.size())}));
    }
    for (const v1::TensorSpec& spec : plan.inputs()) inputs.push_back(tensor(spec, rangesOf(spec)));
    for (const v1::TensorSpec& spec : plan.outputs()) outputs.push_back(tensor(spec, {}));
    for (const v1::Buffer& buffer : plan.buffers()) buffers.push_back(bufferEntry(buffer));
    const std::vector<int64_t> iterations = iterationsOfSteps(plan);
    for (int s = 0; s < plan.steps_size(); ++s)
      steps.push_back(stepEntry(plan, plan.steps(s), iterations[static_cast<size_t>(s)]));
    for (const v1::StepLoop& loop : plan.loops()) loops.push_back(loopEntry(loop));
    for (const v1::ArenaAllocation& place : plan.arena()) {
      allocations.push_back(llvm::ConstantStruct::get(
          allocation_,
          {int64(place.offset()), int64(place.size_bytes()), int32(place.first_step()), int32(place.last_step())}));
    }
    return llvm::ConstantStruct::get(variant_,
                                     {table(dimension_, dimensions),
                                      table(tensor_, inputs),
                                      table(tensor_, outputs),
                                      table(buffer_, buffers),
                                      table(step_, steps),
                                      table(extent_, runtimeExtents(plan)),
                                      table(refused_, refusedSizes(plan)),
                                      table(allocation_, allocations),
                                      table(loop_, loops),
                                      table(pointer_, faultMessages(plan)),
                                      table(state_, states(plan)),
                                      int32(plan.dimensions_size()),
                                      int32(plan.buffers_size()),
                                      int32(plan.steps_size()),
                                      int32(plan.runtime_extents_size()),
                                      int32(plan.refused_sizes_size()),
                                      int32(plan.arena_size()),
                                      int32(plan.loops_size()),
                                      int32(plan.run_faults().messages_size()),
                                      int32(plan.run_faults().messages().empty() ? -1 : plan.run_faults().buffer()),
                                      int32(plan.states_size()),
                                      int64(plan.arena_bytes())});
  }
  Constant* loopEntry(const v1::StepLoop& loop) {
    std::vector<Constant*> carried, scans;
    for (const v1::StepLoop::Carried& each : loop.carried()) {
      carried.push_back(
          llvm::ConstantStruct::get(carried_, {int32(each.initial()), int32(each.before()), int32(each.after()),
                                               int32(each.result()), int32(each.spare())}));
    }
    for (const v1::StepLoop::Scan& each : loop.scans()) {
      scans.push_back(llvm::ConstantStruct::get(
          scan_,
          {int32(each.whole()), int32(each.part()), int32(each.written() ? 1 : 0), int32(each.reversed() ? 1 : 0)}));
    }
    return llvm::ConstantStruct::get(
        loop_,
        {int32(loop.first_step()), int32(loop.last_step()), int64(loop.max_iterations()),
         int32(loop.has_trip_count() ? loop.trip_count() : -1),
         int32(loop.has_initial_condition() ? loop.initial_condition() : -1),
         int32(loop.has_condition() ? loop.condition() : -1), int32(loop.has_iteration() ? loop.iteration() : -1),
         int32(loop.has_executed() ? loop.executed() : -1), int32(loop.carried_size()), table(carried_, carried),
         table(scan_, scans), int32(loop.scans_size()), int32(0)});
  }
  std::vector<Constant*> states(const v1::Plan& plan) {
    const auto indexOf = [](const auto& tensors, const std::string& name) {
      const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const v1::TensorSpec& spec) {
        return spec.name() == name;
      });  // checkIndices() has found it
      return found - tensors.begin();
    };
    std::vector<Constant*> entries;
    for (const v1::State& state : plan.states()) {
      std::vector<Constant*> identities;
      for (const int32_t step : state.append().identity_steps()) identities.push_back(int32(step));
      entries.push_back(llvm::ConstantStruct::get(
          state_,
          {int32(indexOf(plan.inputs(), state.input())), int32(indexOf(plan.outputs(), state.output())),
           int32(state.has_growing_dim() ? state.growing_dim() : -1),
           int32(state.has_append() ? state.append().rows_step() : -1),
           int32(state.has_append() ? state.append().concat_step() : -1),
           int32(static_cast<int64_t>(identities.size())), table(llvm::Type::getInt32Ty(context_), identities)}));
    }
    return entries;
  }
  std::vector<Constant*> rangesOf(const v1::TensorSpec& input) const {
    if (input.bounded_dims().empty()) return {};
    std::vector<Constant*> ranges(static_cast<size_t>(input.shape_size()), int32(-1));
    for (int i = 0; i < input.bounded_dims_size(); ++i)
      ranges[static_cast<size_t>(input.bounded_dims(i))] = int32(input.bounded_by(i));
    return ranges;
  }
  Constant* tensor(const v1::TensorSpec& spec, const std::vector<Constant*>& ranges) {
    std::vector<Constant*> shape;
    for (int64_t extent : spec.shape()) shape.push_back(int64(extent));
    return llvm::ConstantStruct::get(tensor_, {string(spec.name()), int32(spec.dtype()), int32(spec.shape_size()),
                                               table(llvm::Type::getInt64Ty(context_), shape), int64(sizeOf(spec)),
                                               table(llvm::Type::getInt32Ty(context_), ranges)});
  }
  Constant* bufferEntry(const v1::Buffer& buffer) {
    const bool callers = buffer.kind() == v1::Buffer::INPUT || buffer.kind() == v1::Buffer::OUTPUT;
    const bool indexed = callers || buffer.kind() == v1::Buffer::ARENA || buffer.kind() == v1::Buffer::PREPARED ||
                         buffer.kind() == v1::Buffer::LOOP;
    return llvm::ConstantStruct::get(buffer_, {int32(buffer.kind()), int32(indexed ? buffer.index() : 0),
                                               int64(callers ? 0 : buffer.offset()), int64(buffer.size_bytes())});
  }
  Constant* phases(const v1::KernelInfo& kernel) {
    auto* signature = llvm::FunctionType::get(
        llvm::Type::getVoidTy(context_),
        {pointer_, llvm::Type::getInt64Ty(context_), llvm::Type::getInt64Ty(context_), pointer_, pointer_}, false);
    std::vector<Constant*> entries;
    for (const v1::KernelInfo::Phase& phase : kernel.phases()) {
      auto* function = llvm::cast<llvm::Function>(module_.getOrInsertFunction(phase.symbol(), signature).getCallee());
      // Hidden visibility: the linker binds it without a global offset table.
      function->setVisibility(llvm::GlobalValue::HiddenVisibility);
      entries.push_back(llvm::ConstantStruct::get(phase_, {function, int64(phase.grid())}));
    }
    return table(phase_, entries);
  }
  Constant* stepEntry(const v1::Plan& plan, const v1::Step& step, int64_t iterations) {
    const int64_t flops = plan_.workloads(step.workload()).flops();
    const auto workload = static_cast<size_t>(step.workload());
    std::vector<Constant*> operands;
    for (int32_t index : step.operands()) operands.push_back(int32(index));
    const v1::KernelInfo& kernel = *kernels_[workload];
    std::vector<Constant*> grid_bounds, write_bounds;
    const std::vector<GridBound> all = gridBoundsOf(plan, step, kernel);
    for (const GridBound& bound : all) {
      grid_bounds.push_back(llvm::ConstantStruct::get(
          grid_bound_, {int32(bound.phase), int32(bound.ranges), int64(bound.count), int64(bound.inner),
                        int64(bound.numerator), int64(bound.denominator), int64(bound.slack)}));
    }
    for (const WriteBound& bound : writeBoundsOf(plan, step, kernel, all)) {
      std::vector<Constant*> terms;
      for (const WriteBound::Term& term : bound.terms) {
        terms.push_back(
            llvm::ConstantStruct::get(term_, {int32(term.grid_bound), int32(0), int64(term.numerator),
                                              int64(term.denominator), int64(term.bytes), int64(term.most)}));
      }
      write_bounds.push_back(llvm::ConstantStruct::get(
          write_bound_,
          {int32(bound.operand), int32(static_cast<int64_t>(terms.size())), int64(bound.base), table(term_, terms)}));
    }
    return llvm::ConstantStruct::get(
        step_,
        {string(step.name()), string(plan_.workloads(step.workload()).symbol()), phases_[workload],
         int32(kernel.phases_size()), int32(step.operands_size()), table(llvm::Type::getInt32Ty(context_), operands),
         int64(flops > INT64_MAX / iterations ? INT64_MAX : flops * iterations), int64(kernel.workspace_bytes()),
         int64(kernel.scratch_bytes()), int32(kernel.num_results()), int32(static_cast<int64_t>(grid_bounds.size())),
         table(grid_bound_, grid_bounds), table(write_bound_, write_bounds),
         int32(static_cast<int64_t>(write_bounds.size())), int32(0)});
  }
  /// In the order of the inputs.
  std::vector<Constant*> fixedInputs() {
    std::vector<Constant*> entries;
    for (int i = 0; i < plan_.inputs_size(); ++i) {
      for (const auto& [values, may_differ] : {std::pair(&plan_.fixed_inputs(), 0), {&plan_.default_inputs(), 1}}) {
        for (const v1::TensorValue& known : *values) {
          if (known.spec().name() != plan_.inputs(i).name()) continue;
          auto* value = define(llvm::ConstantDataArray::getString(context_, known.data(), /*AddNull=*/false),
                               llvm::GlobalValue::PrivateLinkage);
          // Kernels read the value as an operand.
          value->setAlignment(llvm::Align(TESSERA_BUFFER_ALIGNMENT));
          entries.push_back(llvm::ConstantStruct::get(
              fixed_input_, {int32(i), int32(may_differ), value, int64(static_cast<int64_t>(known.data().size()))}));
        }
      }
    }
    return entries;
  }
  std::vector<Constant*> runtimeExtents(const v1::Plan& plan) const {
    std::vector<Constant*> entries;
    for (const v1::RuntimeExtent& extent : plan.runtime_extents()) {
      entries.push_back(llvm::ConstantStruct::get(
          extent_, {int32(extent.output()), int32(extent.dimension()), int32(extent.buffer()), int32(0)}));
    }
    return entries;
  }
  std::vector<Constant*> faultMessages(const v1::Plan& plan) {
    std::vector<Constant*> entries;
    for (const std::string& message : plan.run_faults().messages()) entries.push_back(string(message));
    return entries;
  }
  std::vector<Constant*> refusedSizes(const v1::Plan& plan) {
    std::vector<Constant*> entries;
    for (const v1::RefusedSizes& sizes : plan.refused_sizes()) {
      entries.push_back(
          llvm::ConstantStruct::get(refused_, {int32(sizes.dimension()), int32(0), int64(sizes.first()),
                                               int64(sizes.last()), int64(sizes.multiple()), string(sizes.reason())}));
    }
    return entries;
  }
  int64_t sizeOf(const v1::TensorSpec& spec) const {
    int64_t size = elementBytes(spec.dtype());
    for (int64_t extent : spec.shape()) size *= extent;
    return size;
  }

  const v1::Plan& plan_;
  const std::vector<const v1::KernelInfo*>& kernels_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::PointerType* pointer_;
  llvm::StructType *tensor_, *buffer_, *phase_, *step_, *grid_bound_, *term_, *write_bound_, *allocation_, *dimension_,
      *fixed_input_, *extent_, *refused_, *variant_, *carried_, *scan_, *loop_, *state_;
  std::vector<Constant*> phases_;  // per workload
};

/// `plan` is the outer plan or one of its variants; `where` names it in errors.
absl::Status checkSteps(const v1::Plan& plan, int workloads, const std::string& where) {
  for (int s = 0; s < plan.steps_size(); ++s) {
    const v1::Step& step = plan.steps(s);
    if (step.workload() < 0 || step.workload() >= workloads) {
      return internalFailure(absl::StrCat(where, "steps[", s, "].workload is ", step.workload(), " of ", workloads));
    }
    for (int32_t index : step.operands()) {
      if (index < 0 || index >= plan.buffers_size()) {
        return internalFailure(
            absl::StrCat(where, "steps[", s, "] refers to buffer ", index, " of ", plan.buffers_size()));
      }
    }
    for (const v1::Step::Rows& rows : step.rows()) {
      // Ranges of a grid bound are bits of an int32.
      const int positions = std::min(plan.dimensions_size(), 31);
      const bool good = std::ranges::all_of(rows.dimensions(), [&](int32_t d) { return d >= 0 && d < positions; });
      if (rows.operand() < 0 || rows.operand() >= step.operands_size() || !good || rows.dimensions().empty() ||
          rows.stride() < 1 || rows.count() < 0 || rows.slack() < 0) {
        return internalFailure(absl::StrCat(where, "steps[", s, "] has rows of no operand or dimension"));
      }
    }
  }
  for (const v1::TensorSpec& input : plan.inputs()) {
    bool good = input.bounded_dims_size() == input.bounded_by_size();
    for (int32_t dim : input.bounded_dims()) good &= dim >= 0 && dim < input.shape_size();
    for (int32_t dimension : input.bounded_by()) good &= dimension >= 0 && dimension < plan.dimensions_size();
    if (!good) return internalFailure(absl::StrCat(where, "input '", input.name(), "' is bounded by no dimension"));
  }
  for (const v1::Buffer& buffer : plan.buffers()) {
    if (plan.arena().empty() || buffer.kind() != v1::Buffer::ARENA) continue;
    if (buffer.index() < 0 || buffer.index() >= plan.arena_size())
      return internalFailure(absl::StrCat(where, "a buffer lies in place ", buffer.index(), " of ", plan.arena_size()));
  }
  for (const v1::RuntimeExtent& extent : plan.runtime_extents()) {
    if (extent.buffer() < 0 || extent.buffer() >= plan.buffers_size()) {
      return internalFailure(
          absl::StrCat(where, "an extent refers to buffer ", extent.buffer(), " of ", plan.buffers_size()));
    }
  }
  const v1::RunFaults& faults = plan.run_faults();
  if (faults.messages_size() > 0 && (faults.buffer() < 0 || faults.buffer() >= plan.buffers_size()))
    return internalFailure(
        absl::StrCat(where, "errors of runs refer to buffer ", faults.buffer(), " of ", plan.buffers_size()));
  for (const v1::RefusedSizes& sizes : plan.refused_sizes()) {
    if (sizes.dimension() < 0 || sizes.dimension() >= plan.dimensions_size()) {
      return internalFailure(
          absl::StrCat(where, "sizes are refused of dimension ", sizes.dimension(), " of ", plan.dimensions_size()));
    }
  }
  return absl::OkStatus();
}

/// Checks the pairs of one plan, and that they are those of the outer plan.
absl::Status checkStates(const v1::Plan& outer, const v1::Plan& plan, const std::string& where) {
  const auto has = [](const auto& tensors, const std::string& name) {
    return std::ranges::any_of(tensors, [&](const v1::TensorSpec& spec) { return spec.name() == name; });
  };
  if (plan.states_size() != outer.states_size()) return internalFailure(absl::StrCat(where, "has other states"));
  for (int i = 0; i < plan.states_size(); ++i) {
    const v1::State& state = plan.states(i);
    if (state.input() != outer.states(i).input() || state.output() != outer.states(i).output() ||
        !has(plan.inputs(), state.input()) || !has(plan.outputs(), state.output()))
      return internalFailure(absl::StrCat(where, "states[", i, "] names no such input or output"));
    const auto isStep = [&](int32_t step) { return step >= 0 && step < plan.steps_size(); };
    const v1::State::Append& append = state.append();
    if (state.has_append() && (!isStep(append.rows_step()) || !isStep(append.concat_step()) ||
                               !std::ranges::all_of(append.identity_steps(), isStep)))
      return internalFailure(absl::StrCat(where, "states[", i, "] names no such step"));
  }
  return absl::OkStatus();
}

absl::Status checkIndices(const v1::Plan& plan, size_t kernels) {
  if (kernels != static_cast<size_t>(plan.workloads_size())) return internalFailure("not one kernel for each workload");
  if (plan.variants_size() >= TESSERA_MAX_VARIANTS) {
    return internalFailure(absl::StrCat(plan.variants_size() + 1, " variants; at most ", TESSERA_MAX_VARIANTS));
  }
  TESSERA_RETURN_IF_ERROR(checkSteps(plan, plan.workloads_size(), ""));
  TESSERA_RETURN_IF_ERROR(checkStates(plan, plan, ""));
  if (absl::Status status = checkSteps(plan.preparation(), plan.workloads_size(), "preparation."); !status.ok())
    return status;
  for (int i = 0; i < plan.variants_size(); ++i) {
    const v1::Plan& variant = plan.variants(i);
    const std::string where = absl::StrCat("variants[", i, "].");
    if (variant.inputs_size() != plan.inputs_size() || variant.outputs_size() != plan.outputs_size()) {
      return internalFailure(absl::StrCat(where, "inputs or outputs are not as many as the plan's"));
    }
    TESSERA_RETURN_IF_ERROR(checkSteps(variant, plan.workloads_size(), where));
    TESSERA_RETURN_IF_ERROR(checkStates(plan, variant, where));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> requiredFeatures(const v1::CodeForm& code) {
  std::vector<std::string> features(code.features().begin(), code.features().end());
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

absl::StatusOr<std::string> emitDescriptor(const v1::Plan& plan, const std::vector<const v1::KernelInfo*>& kernels) {
  TESSERA_RETURN_IF_ERROR(checkIndices(plan, kernels.size()));
  TESSERA_ASSIGN_OR_RETURN(auto machine, targetMachineOf(plan.target().code()));
  llvm::LLVMContext context;
  llvm::Module module("tessera_module", context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  Tables(plan, kernels, module).emit();

  std::string problem;
  llvm::raw_string_ostream problem_stream(problem);
  if (llvm::verifyModule(module, &problem_stream))
    return internalFailure("the module's tables do not verify: " + problem);
  return objectOf(module, *machine);
}

}  // namespace tessera::compiler
