#include "compiler/graph/passes.h"

#include <string>

#include "compiler/graph/graph_pass.h"
#include "compiler/graph/module_pass.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/plan/outline.h"
#include "compiler/target/target.h"
#include "mlir/Pass/PassRegistry.h"

namespace tessera::compiler {
namespace {

using mlir::func::FuncOp;

/// A pass of the table for a chip that its options name. Bytes of weights are unknown to it.
class TablePass : public ModulePass<TablePass> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TablePass)
  explicit TablePass(const GraphPass& pass) : pass_(pass), argument_("tessera-" + std::string(pass.name)) {}
  TablePass(const TablePass& other) : ModulePass(other), pass_(other.pass_), argument_(other.argument_) {}

  llvm::StringRef getArgument() const override { return argument_; }
  llvm::StringRef getDescription() const override { return pass_.summary; }
  void runOnOperation() override {
    const v1::Target* named = target_.empty() ? nullptr : findBuiltinTarget(target_);
    if (!target_.empty() && named == nullptr) {
      getOperation().emitError("there is no built-in target '" + target_ + "'");
      return signalPassFailure();
    }
    const Chip chip(named != nullptr ? *named : referenceTarget());
    Canonicalizer canonicalizer(getContext());
    for (FuncOp function : llvm::to_vector(getOperation().getOps<FuncOp>())) {
      PassState state{.main = function, .chip = chip, .canonicalizer = canonicalizer};
      if (const absl::StatusOr<int> changes = pass_.run(state); !changes.ok()) {
        function.emitError(std::string(changes.status().message()));
        return signalPassFailure();
      }
    }
  }

 private:
  /// A processor for passes that weigh times against each other.
  v1::Target referenceTarget() const {
    v1::Target target;
    target.mutable_registers()->set_vector_bits(static_cast<int32_t>(lanes_ * 32));
    v1::ComputeUnit* unit = target.add_units();
    unit->set_count(cores_);
    unit->set_frequency_ghz(2.7);
    unit->set_ops_per_cycle(static_cast<double>(4 * lanes_));
    for (auto [capacity, bandwidth] : {std::pair(1 << 20, 64), std::pair(32 << 20, 16), std::pair(0, 5)}) {
      v1::MemoryLevel* level = target.add_memory();
      level->set_capacity_bytes(capacity);
      level->set_bandwidth_bytes_per_cycle(bandwidth);
    }
    return target;
  }

  const GraphPass& pass_;
  const std::string argument_;
  Option<std::string> target_{*this, "target", llvm::cl::desc("a built-in target; empty: a reference processor")};
  Option<int64_t> lanes_{*this, "lanes", llvm::cl::desc("f32 lanes of a vector register of the reference processor"),
                         llvm::cl::init(16)};
  Option<int> cores_{*this, "cores", llvm::cl::desc("cores of the reference processor"), llvm::cl::init(1)};
};

/// Puts each fused group of a function into a function of its own after it, as planGraph() would compile it.
class OutlineGroupsPass : public ModulePass<OutlineGroupsPass> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OutlineGroupsPass)
  llvm::StringRef getArgument() const override { return "tessera-outline-groups"; }
  llvm::StringRef getDescription() const override { return "Shows the fused groups as functions"; }
  void runOnOperation() override {
    for (FuncOp main : llvm::to_vector(getOperation().getOps<FuncOp>())) {
      int count = 0;
      for (const Group& group : formGroups(main)) {
        OutlinedGroup outlined = outlineGroup(group);
        FuncOp function = outlined.function.release();
        function.setName((main.getName() + "_group_" + std::to_string(count++)).str());
        main->getBlock()->push_back(function);
      }
    }
  }
};

}  // namespace

void registerGraphPasses() {
  registerPlanPass();
  registerFuseChainsPass();
  mlir::registerPass([]() -> std::unique_ptr<mlir::Pass> { return std::make_unique<OutlineGroupsPass>(); });
  for (const GraphPass& pass : graphPasses()) {
    mlir::registerPass([&pass]() -> std::unique_ptr<mlir::Pass> { return std::make_unique<TablePass>(pass); });
  }
}

}  // namespace tessera::compiler
