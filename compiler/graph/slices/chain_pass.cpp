#include "compiler/graph/module_pass.h"
#include "compiler/graph/passes.h"
#include "compiler/graph/plan/outline.h"
#include "compiler/graph/slices/choose_fusions.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Pass/PassRegistry.h"

namespace tessera::compiler {
namespace {

/// Decides chains and regions of @main for a machine given by options, prints every decision, and outlines each group
/// next to @main with its slices as an attribute.
class FuseChainsPass : public ModulePass<FuseChainsPass> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FuseChainsPass)
  FuseChainsPass() = default;
  FuseChainsPass(const FuseChainsPass& other) : ModulePass(other) {}

  llvm::StringRef getArgument() const override { return "tessera-fuse-chains"; }
  llvm::StringRef getDescription() const override {
    return "Merge groups that run slice by slice, say why and why not";
  }
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<mlir::func::FuncOp>("main");
    if (!main) return;
    std::vector<Group> groups = formGroups(main);
    GraphChoices choices;
    const Chip chip(target());
    const std::vector<v1::Decision> decisions = chooseFusions(groups, chip, choices);
    for (const v1::Decision& decision : decisions) {
      llvm::outs() << decision.kind() << (decision.taken() ? " taken: " : " declined: ") << decision.reason() << "\n";
    }
    mlir::Builder builder(&getContext());
    for (auto [index, group] : llvm::enumerate(groups)) {
      OutlinedGroup outlined = outlineGroup(group);
      mlir::func::FuncOp function = outlined.function.release();
      function.setName("main_group_" + std::to_string(index));
      if (outlined.chain) {
        std::string slices;
        for (int i = 0; i < outlined.chain->order_size(); ++i) {
          slices += (i == 0 ? "" : " ") + outlined.chain->order(i) + ":" + std::to_string(outlined.chain->tile(i));
        }
        function->setAttr("tessera.slices", builder.getStringAttr(slices));
      }
      getOperation().push_back(function);
    }
  }

 private:
  v1::Target target() const {
    v1::Target target;
    target.set_name("options");
    target.mutable_registers()->set_vector_bits(512);
    target.mutable_registers()->set_vector_count(32);
    auto level = [&](const char* name, int64_t bytes, double bandwidth, int cores) {
      v1::MemoryLevel* memory = target.add_memory();
      memory->set_name(name);
      memory->set_capacity_bytes(bytes);
      memory->set_bandwidth_bytes_per_cycle(bandwidth);
      memory->set_shared_by(cores);
    };
    level("L2", near_bytes_, 64, 1);
    level("L3", far_bytes_, 16, 2);
    level("DRAM", 0, 5, 2);
    auto* unit = target.add_units();
    unit->set_count(static_cast<int>(cores_));
    unit->set_frequency_ghz(1);
    unit->set_ops_per_cycle(operations_);
    return target;
  }

  Option<int64_t> near_bytes_{*this, "near", llvm::cl::desc("bytes of a core's memory"), llvm::cl::init(1 << 20)};
  Option<int64_t> far_bytes_{*this, "far", llvm::cl::desc("bytes of the shared memory"), llvm::cl::init(32 << 20)};
  Option<int64_t> cores_{*this, "cores", llvm::cl::desc("cores"), llvm::cl::init(2)};
  Option<int64_t> operations_{*this, "operations", llvm::cl::desc("a core's, per cycle"), llvm::cl::init(64)};
};

}  // namespace

void registerFuseChainsPass() {
  mlir::registerPass([]() -> std::unique_ptr<mlir::Pass> { return std::make_unique<FuseChainsPass>(); });
}

}  // namespace tessera::compiler
