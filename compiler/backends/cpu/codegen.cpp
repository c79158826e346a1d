#include "compiler/backends/cpu/codegen.h"

#include <set>
#include <string>

#include "compiler/backends/cpu/access_check.h"
#include "compiler/backends/cpu/apply/apply.h"
#include "compiler/backends/cpu/bufferize.h"
#include "compiler/backends/cpu/decide/decide.h"
#include "compiler/backends/cpu/native.h"
#include "compiler/backends/cpu/phase_emitter.h"
#include "compiler/backends/cpu/static_nodes.h"
#include "compiler/backends/cpu/workspace.h"
#include "compiler/ir/object_pool.h"
#include "compiler/schedule/text.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using namespace codegen;  // NOLINT: this file implements that namespace's interface

/// A context with the dialects of code generation, and its passes, reused for one workload after the other: creating
/// and destroying it takes a third of the time that compiling a small workload does.
struct CompilationContext {
  CompilationContext() : context(dialects(), mlir::MLIRContext::Threading::DISABLED), clean_up(loaded(context)) {}

  // Single-threaded: the tasks of a job run in separate processes.
  mlir::MLIRContext context;
  CleanupPasses clean_up;
  int workloads = 0;

 private:
  static mlir::MLIRContext& loaded(mlir::MLIRContext& context) {
    context.loadAllAvailableDialects();
    return context;
  }
  static mlir::DialectRegistry dialects() {
    mlir::DialectRegistry registry;
    registerCodegenDialects(registry);
    mlir::registerBuiltinDialectTranslation(registry);
    mlir::registerLLVMDialectTranslation(registry);
    return registry;
  }
};

ObjectPool<CompilationContext>& spareWorkbenches() {
  static auto* const workbenches = new ObjectPool<CompilationContext>(16);
  return *workbenches;
}

/// A context never frees the types and attributes it has created, so it is replaced after this many workloads.
constexpr int kWorkloadsOfWorkbench = 256;

struct ReturnToPool {
  void operator()(CompilationContext* workbench) const {
    std::unique_ptr<CompilationContext> owned(workbench);
    if (++owned->workloads < kWorkloadsOfWorkbench) spareWorkbenches().put(std::move(owned));
  }
};

/// A workload as buffers and loops with no decision made, and the objects that own it.
struct Prepared {
  std::unique_ptr<CompilationContext, ReturnToPool> workbench;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp func;
  int results = 0;  ///< of the workload; bufferized, they are arguments
  Chip chip;
};

absl::StatusOr<Prepared> bufferize(const v1::BuildUnit& unit) {
  Prepared prepared;
  TESSERA_ASSIGN_OR_RETURN(auto chip, chipOf(unit));
  prepared.chip = chip;
  auto spare = spareWorkbenches().take();
  prepared.workbench.reset(spare ? spare.release() : new CompilationContext);
  TESSERA_ASSIGN_OR_RETURN(auto module, parseWorkload(prepared.workbench->context, unit.ir()));
  prepared.module = std::move(module);
  prepared.func = *prepared.module->getOps<mlir::func::FuncOp>().begin();
  prepared.results = static_cast<int>(prepared.func.getNumResults());
  TESSERA_RETURN_IF_ERROR(normalizeTensors(prepared.func, prepared.workbench->clean_up));
  TESSERA_RETURN_IF_ERROR(bufferizeWorkload(prepared.func, prepared.workbench->clean_up));
  return prepared;
}

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> emit(Prepared& prepared, const v1::BuildUnit& unit,
                                                       v1::KernelInfo& info) {
  TESSERA_ASSIGN_OR_RETURN(auto list, applySchedule(analyze(prepared.func), prepared.chip, unit.schedule()));
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&prepared.workbench->context));
  planWorkspace(prepared.func, list);
  TESSERA_RETURN_IF_ERROR(checkAccesses(list));
  if (absl::Status status = emitPhases(prepared.func, list, unit.symbol(), prepared.chip, *module, info); !status.ok())
    return status;
  return module;
}

}  // namespace

absl::StatusOr<v1::Schedule> defaultSchedule(const v1::BuildUnit& unit, const ScheduleRequest& request) {
  TESSERA_ASSIGN_OR_RETURN(auto prepared, bufferize(unit));
  return decideSchedule(analyze(prepared.func), prepared.chip, request);
}

std::vector<v1::Schedule> seedSchedules(const v1::BuildUnit& unit) {
  std::vector<ScheduleRequest> requests(1);
  for (const std::vector<int>& packed : {std::vector<int>{}, {0}, {1}, {0, 1}}) requests.push_back({.packed = packed});
  requests.push_back({.nested = true});
  std::set<std::string> seen = {printSchedule(unit.schedule())};
  std::vector<v1::Schedule> forms;
  const auto add = [&](const v1::BuildUnit& described, const ScheduleRequest& request) {
    absl::StatusOr<v1::Schedule> form = defaultSchedule(described, request);
    if (form.ok() && seen.insert(printSchedule(*form)).second) forms.push_back(*std::move(form));
  };
  v1::BuildUnit family = unit;
  family.clear_cost_parameters();
  family.clear_memory();
  add(family, {});
  for (const ScheduleRequest& request : requests) add(unit, request);
  return forms;
}

absl::StatusOr<StaticAnalysis> analyzeWorkload(const v1::BuildUnit& unit) {
  TESSERA_ASSIGN_OR_RETURN(auto prepared, bufferize(unit));
  StaticAnalysis analysis;
  analysis.nodes = nodesOf(prepared.func);
  // Where an instruction sums groups, trees name loops over groups, so the extents are those after instructions are
  // chosen.
  analysis.extents = extentsOf(decideNests(analyze(prepared.func), prepared.chip));
  return analysis;
}

absl::StatusOr<v1::BuiltObject> buildObject(const v1::BuildUnit& unit) {
  TESSERA_ASSIGN_OR_RETURN(auto prepared, bufferize(unit));
  v1::BuiltObject built;
  built.mutable_info()->set_workload_hash(unit.workload_hash());
  built.mutable_info()->set_num_results(prepared.results);
  TESSERA_ASSIGN_OR_RETURN(auto module, emit(prepared, unit, *built.mutable_info()));
  TESSERA_RETURN_IF_ERROR(lowerToLlvm(*module, prepared.chip.fusesMultiplyAdd()));
  TESSERA_ASSIGN_OR_RETURN(auto object, emitObject(*module, unit.code(), prepared.chip.vectorBits()));
  built.set_object(std::move(object));
  return built;
}

absl::Status checkSchedule(const v1::BuildUnit& unit, std::string* emitted) {
  TESSERA_ASSIGN_OR_RETURN(auto prepared, bufferize(unit));
  v1::KernelInfo info;
  TESSERA_ASSIGN_OR_RETURN(auto module, emit(prepared, unit, info));
  if (!emitted) return absl::OkStatus();
  llvm::raw_string_ostream stream(*emitted);
  stream << unit.schedule().vector_bits() << "\n" << *module;
  return absl::OkStatus();
}

}  // namespace tessera::compiler
