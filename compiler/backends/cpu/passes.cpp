#include "compiler/backends/cpu/passes.h"

#include "compiler/backends/cpu/apply/apply.h"
#include "compiler/backends/cpu/decide/decide.h"
#include "compiler/backends/cpu/native.h"
#include "compiler/backends/cpu/phase_emitter.h"
#include "compiler/backends/cpu/workspace.h"
#include "compiler/schedule/text.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/target.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// A step as a pass: a failed status becomes an error on the module.
template <typename Derived>
struct Step : mlir::PassWrapper<Derived, mlir::OperationPass<mlir::ModuleOp>> {
  void getDependentDialects(mlir::DialectRegistry& registry) const override { registerCodegenDialects(registry); }
  void runOnOperation() override {
    if (absl::Status status = static_cast<Derived*>(this)->step(this->getOperation()); !status.ok()) {
      this->getOperation()->emitError(std::string(status.message()));
      this->signalPassFailure();
    }
  }
};

mlir::func::FuncOp workloadOf(mlir::ModuleOp module) { return *module.getOps<mlir::func::FuncOp>().begin(); }

struct NormalizePass : Step<NormalizePass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NormalizePass)
  llvm::StringRef getArgument() const final { return "tessera-normalize"; }
  llvm::StringRef getDescription() const final { return "Tensor operations to generics, fills and slices"; }
  absl::Status step(mlir::ModuleOp module) { return normalizeTensors(workloadOf(module)); }
};

struct BufferizePass : Step<BufferizePass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(BufferizePass)
  llvm::StringRef getArgument() const final { return "tessera-bufferize"; }
  llvm::StringRef getDescription() const final { return "A workload to memrefs, results written in place"; }
  absl::Status step(mlir::ModuleOp module) {
    TESSERA_RETURN_IF_ERROR(normalizeTensors(workloadOf(module)));
    return bufferizeWorkload(workloadOf(module));
  }
};

struct EmitPass : Step<EmitPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmitPass)
  EmitPass() = default;
  EmitPass(const EmitPass& other) : Step(other) {}
  llvm::StringRef getArgument() const final { return "tessera-emit"; }
  llvm::StringRef getDescription() const final { return "A workload to one function per phase"; }
  Option<int> vector_bits{*this, "vector-bits", llvm::cl::desc("Bits of a vector register"), llvm::cl::init(512)};
  Option<int> vector_registers{*this, "vector-registers", llvm::cl::desc("Vector registers"), llvm::cl::init(32)};
  Option<std::string> chip_name{*this, "target", llvm::cl::desc("A built-in target, instead of vectors of some width")};
  ListOption<std::string> slices{*this, "slices", llvm::cl::desc("Slices to run in, NAME/EXTENT: d0/1,d1/64")};

  absl::Status step(mlir::ModuleOp module) {
    mlir::func::FuncOp func = workloadOf(module);
    TESSERA_RETURN_IF_ERROR(normalizeTensors(func));
    TESSERA_RETURN_IF_ERROR(bufferizeWorkload(func));
    v1::Target target;
    target.mutable_registers()->set_vector_bits(vector_bits);
    target.mutable_registers()->set_vector_count(vector_registers);
    target.mutable_code()->add_features("fma");
    if (!chip_name.empty()) {
      const v1::Target* found = findBuiltinTarget(chip_name);
      if (!found) return absl::InvalidArgumentError("target: there is no built-in " + chip_name);
      target = *found;
      *target.mutable_intrinsics() = usableInstructions(*found);
    }
    Chip chip(target);
    ScheduleRequest request;
    for (const std::string& slice : slices) {
      const auto [name, extent] = llvm::StringRef(slice).split('/');
      int64_t tile = 0;
      if (extent.getAsInteger(10, tile)) return absl::InvalidArgumentError("slices: " + slice + " is not NAME/EXTENT");
      request.slices.add_order(name.str());
      request.slices.add_tile(tile);
    }
    // As in the product: decide on one copy, print, parse, apply on the other copy.
    mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
    TESSERA_ASSIGN_OR_RETURN(auto decided, decideSchedule(analyze(workloadOf(*copy)), chip, request));
    TESSERA_ASSIGN_OR_RETURN(auto schedule, parseSchedule(printSchedule(decided)));
    TESSERA_ASSIGN_OR_RETURN(auto list, applySchedule(analyze(func), chip, schedule));
    planWorkspace(func, list);
    v1::KernelInfo info;
    mlir::OwningOpRef<mlir::ModuleOp> phases = mlir::ModuleOp::create(module.getLoc());
    if (absl::Status status = emitPhases(func, list, func.getName().str(), chip, *phases, info); !status.ok())
      return status;
    func.erase();
    module.getBody()->getOperations().splice(module.getBody()->end(), phases->getBody()->getOperations());
    mlir::Builder builder(module.getContext());
    module->setAttr("tessera.workspace_bytes", builder.getI64IntegerAttr(info.workspace_bytes()));
    for (const auto& phase : info.phases()) {
      mlir::Operation* function = module.lookupSymbol(phase.symbol());
      function->setAttr("tessera.grid", builder.getI64IntegerAttr(phase.grid()));
      function->setAttr("tessera.strategy", builder.getStringAttr(phase.strategy()));
    }
    return absl::OkStatus();
  }
};

struct LowerPass : Step<LowerPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerPass)
  llvm::StringRef getArgument() const final { return "tessera-lower"; }
  llvm::StringRef getDescription() const final { return "Phases to the LLVM dialect"; }
  absl::Status step(mlir::ModuleOp module) { return lowerToLlvm(module, true); }
};

}  // namespace

void registerCodegenPasses() {
  mlir::PassRegistration<NormalizePass>();
  mlir::PassRegistration<BufferizePass>();
  mlir::PassRegistration<EmitPass>();
  mlir::PassRegistration<LowerPass>();
}

}  // namespace tessera::compiler::codegen
