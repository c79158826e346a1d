#include "compiler/artifact/ir_kernels.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/target_machine.h"
#include "compiler/target/host.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

namespace tessera::compiler {
namespace {

/// A phase: `prologue` once, then `body` for each %i of the grid.
std::string phaseIr(const std::string& symbol, const char* prologue, const std::string& body) {
  return absl::StrCat("define void @", symbol, "(ptr %operands, i64 %lo, i64 %hi, ptr %workspace, ptr %scratch) {\n",
                      "entry:", prologue, R"(
  br label %loop
loop:
  %i = phi i64 [ %lo, %entry ], [ %next, %loop ])",
                      body, R"(
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
)");
}

std::string addIr(const std::string& suffix) {
  return phaseIr("add" + suffix, R"(
  %x = load ptr, ptr %operands
  %pw = getelementptr ptr, ptr %operands, i64 1
  %w = load ptr, ptr %pw
  %py = getelementptr ptr, ptr %operands, i64 2
  %y = load ptr, ptr %py)",
                 R"(
  %px = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %px
  %pb = getelementptr float, ptr %w, i64 %i
  %b = load float, ptr %pb
  %sum = fadd float %a, %b
  %pc = getelementptr float, ptr %y, i64 %i
  store float %sum, ptr %pc)");
}

/// Two phases over n elements. The first one also writes to scratch, to check that scratch is available.
std::string mirrorIr(const std::string& suffix, int64_t n) {
  return phaseIr("double_it" + suffix, R"(
  %h = load ptr, ptr %operands
  store i64 %lo, ptr %scratch)",
                 R"(
  %ph = getelementptr float, ptr %h, i64 %i
  %a = load float, ptr %ph
  %double = fadd float %a, %a
  %pt = getelementptr float, ptr %workspace, i64 %i
  store float %double, ptr %pt)") +
         phaseIr("mirror" + suffix, R"(
  %py = getelementptr ptr, ptr %operands, i64 1
  %y = load ptr, ptr %py)",
                 absl::StrCat("\n  %j = sub i64 ", n - 1, R"(, %i
  %pt = getelementptr float, ptr %workspace, i64 %j
  %a = load float, ptr %pt
  %pc = getelementptr float, ptr %y, i64 %i
  store float %a, ptr %pc)"));
}

[[noreturn]] void fatal(const std::string& message) {
  std::fprintf(stderr, "ir_kernels: %s\n", message.c_str());
  std::abort();
}

v1::Target host() {
  auto target = detectHostTarget();
  if (!target.ok()) fatal(std::string(target.status().message()));
  return *target;
}

v1::TensorSpec named(const char* name, const v1::TensorSpec& type) {
  v1::TensorSpec spec = type;
  spec.set_name(name);
  return spec;
}

void addWorkload(v1::Plan& plan, const std::string& name, const std::string& suffix, int64_t flops) {
  v1::Workload* workload = plan.add_workloads();
  workload->set_hash(name + suffix);
  workload->set_symbol(name + suffix);
  workload->set_summary(name);
  workload->set_flops(flops);
}

void addStep(v1::Plan& plan, const char* name, int workload, std::initializer_list<int> operands) {
  v1::Step* step = plan.add_steps();
  step->set_name(name);
  step->set_workload(workload);
  for (int operand : operands) step->add_operands(operand);
}

int64_t roundUp(int64_t value) { return (value + 63) / 64 * 64; }

}  // namespace

v1::KernelInfo::Phase phaseOf(const std::string& symbol, int64_t grid) {
  v1::KernelInfo::Phase phase;
  phase.set_symbol(symbol);
  phase.set_grid(grid);
  phase.set_strategy("elementwise");
  return phase;
}

v1::BuiltObject compileIr(const std::string& ir, const std::string& workload_hash,
                          const std::vector<v1::KernelInfo::Phase>& phases, int64_t workspace_bytes,
                          int64_t scratch_bytes) {
  auto machine = targetMachineOf(host().code());
  if (!machine.ok()) fatal(std::string(machine.status().message()));
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, diagnostic, context);
  if (!module) fatal(diagnostic.getMessage().str());
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  auto object = objectOf(*module, **machine);
  if (!object.ok()) fatal(std::string(object.status().message()));

  v1::BuiltObject built;
  built.set_object(*std::move(object));
  built.mutable_info()->set_workload_hash(workload_hash);
  built.mutable_info()->set_workspace_bytes(workspace_bytes);
  built.mutable_info()->set_scratch_bytes(scratch_bytes);
  built.mutable_info()->set_strategy("elementwise");
  built.mutable_info()->set_num_results(1);
  for (const v1::KernelInfo::Phase& phase : phases) *built.mutable_info()->add_phases() = phase;
  return built;
}

SmallModel::SmallModel(int64_t n, const std::string& suffix) {
  const int64_t bytes = n * 4, padded = roundUp(bytes);
  v1::TensorSpec vector;
  vector.set_dtype(v1::DATA_TYPE_F32);
  vector.add_shape(n);
  *plan.mutable_target() = host();
  plan.set_model_sha256(std::string(64, '0'));
  plan.set_compiler_version("0.1.0+test");
  plan.set_arena_bytes(padded);
  plan.set_weights_bytes(padded);
  *plan.add_inputs() = named("x", vector);
  *plan.add_outputs() = named("y", vector);
  addWorkload(plan, "add", suffix, n);
  addWorkload(plan, "mirror", suffix, n);
  for (v1::Buffer::Kind kind : {v1::Buffer::INPUT, v1::Buffer::WEIGHT, v1::Buffer::ARENA, v1::Buffer::OUTPUT}) {
    v1::Buffer* buffer = plan.add_buffers();
    buffer->set_kind(kind);
    buffer->set_size_bytes(bytes);
    *buffer->mutable_spec() = vector;
  }
  addStep(plan, "first", 0, {0, 1, 2});
  addStep(plan, "second", 1, {2, 3});

  // In another order than the plan's: assemble() sorts them.
  objects.push_back(compileIr(mirrorIr(suffix, n), "mirror" + suffix,
                              {phaseOf("double_it" + suffix, n), phaseOf("mirror" + suffix, n)}, padded, 64));
  objects.push_back(compileIr(addIr(suffix), "add" + suffix, {phaseOf("add" + suffix, n)}));
  weights.resize(static_cast<size_t>(padded) / 4);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) weights[i] = static_cast<float>(i) / 2;
}

SmallModel strayModel(int64_t n, const Stray& stray) {
  SmallModel model(n);
  const std::string ir =
      absl::StrCat(R"(define void @copy(ptr %operands, i64 %lo, i64 %hi, ptr %workspace, ptr %scratch) {
entry:
  %h = load ptr, ptr %operands
  %py = getelementptr ptr, ptr %operands, i64 )",
                   stray.into_argument ? 0 : 1, R"(
  %y = load ptr, ptr %py
  %from = getelementptr i8, ptr %h, i64 )",
                   stray.read_bytes, R"(
  %to = getelementptr i8, ptr %y, i64 )",
                   stray.write_bytes, R"(
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %from, i64 %i
  %a = load float, ptr %pa
  %pb = getelementptr float, ptr %to, i64 %i
  store float %a, ptr %pb
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, )",
                   n - stray.missing, R"(
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
)");
  model.objects[0] = compileIr(ir, "mirror", {phaseOf("copy", 1)});
  return model;
}

SmallModel smallModelVariants(const std::vector<int64_t>& sizes) {
  SmallModel model(sizes[0], "_0");
  for (size_t v = 0; v < sizes.size(); ++v) {
    SmallModel other(sizes[v], "_" + std::to_string(v));
    v1::Plan* plan = v == 0 ? &model.plan : model.plan.add_variants();
    v1::DimensionBinding& dimension = *other.plan.add_dimensions();
    dimension.set_name("n");
    dimension.set_size(sizes[v]);
    // w[i] does not depend on n: all variants read from the start of the longest.
    if (other.weights.size() > model.weights.size()) model.weights = other.weights;
    if (v == 0) {
      *plan->mutable_dimensions() = other.plan.dimensions();
      continue;
    }
    for (v1::Step& step : *other.plan.mutable_steps()) step.set_workload(step.workload() + model.plan.workloads_size());
    for (const v1::Workload& workload : other.plan.workloads()) *model.plan.add_workloads() = workload;
    other.plan.clear_workloads();
    *plan = other.plan;
    for (v1::BuiltObject& object : other.objects) model.objects.push_back(std::move(object));
  }
  model.plan.set_weights_bytes(static_cast<int64_t>(model.weights.size() * sizeof(float)));
  return model;
}

}  // namespace tessera::compiler
