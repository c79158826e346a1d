#include "compiler/codegen/codegen.h"

#include "compiler/codegen/access_check.h"
#include "compiler/codegen/bufferize.h"
#include "compiler/codegen/emit/phase_emitter.h"
#include "compiler/codegen/emit/sequential.h"
#include "compiler/codegen/native.h"
#include "compiler/codegen/region/region_chain.h"
#include "compiler/codegen/tiling/packing.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

namespace tessera::compiler {
namespace {

using namespace codegen;  // NOLINT: everything of this file is about it

/// A schedule's strategy that keeps phases where rows would share a region (to compare both).
constexpr char kPhasesStrategy[] = "phases";

/// A workload brought to phases, with what it lives in.
struct Prepared {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp func;
  int results = 0;  ///< of the workload; bufferized, they are arguments
  PhaseList list;
  Machine machine;
};

absl::StatusOr<Prepared> prepare(const v1::BuildUnit& unit) {
  Prepared prepared;
  auto machine = machineOf(unit.code(), unit.registers(), unit.memory());
  if (!machine.ok()) return machine.status();
  prepared.machine = *machine;
  if (unit.schedule().vector_bits() > 0) prepared.machine.vector_bits = unit.schedule().vector_bits();
  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  // One thread: tasks of a job run in processes of their own.
  prepared.context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  prepared.context->loadAllAvailableDialects();
  auto module = parseWorkload(*prepared.context, unit.ir());
  if (!module.ok()) return module.status();
  prepared.module = std::move(*module);
  prepared.func = *prepared.module->getOps<mlir::func::FuncOp>().begin();
  prepared.results = static_cast<int>(prepared.func.getNumResults());
  if (auto status = normalizeTensors(prepared.func); !status.ok()) return status;
  if (auto status = bufferizeWorkload(prepared.func); !status.ok()) return status;
  prepared.list = splitPhases(prepared.func, prepared.machine.vector_registers);
  const bool shares = sharesValues(prepared.list);
  if (unit.schedule().chain().order_size() > 0) {
    if (shares)
      return refuseChain("a loop nest uses a value that another operation loads", "a scalar read outside of loops",
                         "structured operations (linalg)");
    if (auto status = formChain(prepared.func, prepared.list, prepared.machine, unit.schedule().chain()); !status.ok())
      return status;
  } else if (shares) {
    prepared.list = onePhase(prepared.func);
    return prepared;
  } else if (unit.schedule().strategy() != kScalarStrategy && unit.schedule().strategy() != kPhasesStrategy) {
    formRowRegion(prepared.func, prepared.list, prepared.machine);
  }
  for (Phase& phase : prepared.list.phases)
    if (phase.plans.empty())
      for (Nest& nest : phase.nests) mergeLoops(nest);
  planPhases(prepared.list, prepared.machine, unit.schedule());
  return prepared;
}

}  // namespace

absl::StatusOr<v1::Schedule> chooseSchedule(const v1::BuildUnit& unit) {
  auto prepared = prepare(unit);
  if (!prepared.ok()) return prepared.status();
  v1::Schedule schedule = unit.schedule();
  if (schedule.vector_bits() == 0) schedule.set_vector_bits(prepared->machine.vector_bits);
  // The nest with the most iterations is the one worth describing.
  const Nest* dominant = nullptr;
  const TilePlan* plan = nullptr;
  auto consider = [&](const Nest& nest, const TilePlan& its) {
    if (dominant && nest.iterations() <= dominant->iterations()) return;
    dominant = &nest;
    plan = &its;
  };
  for (const Phase& phase : prepared->list.phases) {
    if (phase.region) {  // its plans follow from the slices, and are not for overriding one by one
      schedule.set_strategy("region");
      return schedule;
    }
    for (size_t n = 0; n < phase.nests.size(); ++n) consider(phase.nests[n], phase.plans[n]);
  }
  if (!plan) {
    schedule.set_strategy("scalar-loops");
    return schedule;
  }
  if (schedule.register_tile_size() != 2) {
    schedule.clear_register_tile();
    schedule.add_register_tile(plan->rows);
    schedule.add_register_tile(plan->vectors);
  }
  if (schedule.unroll_reduction() == 0 && !plan->reductions.empty())
    schedule.set_unroll_reduction(static_cast<int>(plan->tile[plan->reductions.back()]));
  if (schedule.parallel_loops() == 0) schedule.set_parallel_loops(plan->grid_levels);
  if (schedule.cache_tile().empty() && llvm::any_of(plan->block, [](int64_t block) { return block > 0; }))
    for (int64_t block : plan->block) schedule.add_cache_tile(block);
  if (schedule.packed_operands().empty())
    for (const PackedOperand& packed : plan->packed) schedule.add_packed_operands(packed.input);
  if (schedule.strategy().empty()) schedule.set_strategy(plan->strategy);
  return schedule;
}

absl::StatusOr<v1::BuiltObject> buildObject(const v1::BuildUnit& unit) {
  auto prepared = prepare(unit);
  if (!prepared.ok()) return prepared.status();
  v1::BuiltObject built;
  built.mutable_info()->set_workload_hash(unit.workload_hash());
  built.mutable_info()->set_num_results(prepared->results);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(prepared->context.get()));
  packOperands(prepared->func, prepared->list, prepared->machine);
  splitGrids(prepared->list);
  planWorkspace(prepared->func, prepared->list);
  if (auto status = checkAccesses(prepared->list); !status.ok()) return status;
  if (auto status =
          emitPhases(prepared->func, prepared->list, unit.symbol(), prepared->machine, *module, *built.mutable_info());
      !status.ok())
    return status;
  if (auto status = lowerToLlvm(*module); !status.ok()) return status;
  auto object = emitObject(*module, unit.code(), prepared->machine.vector_bits);
  if (!object.ok()) return object.status();
  built.set_object(std::move(*object));
  return built;
}

}  // namespace tessera::compiler
