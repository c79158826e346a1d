#include <cstring>

#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/module_pass.h"
#include "compiler/graph/passes.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Pass/PassRegistry.h"

namespace tessera::compiler {
namespace {

/// Returns weights that are not uniform, since uniform ones would become constants: a ramp of small numbers in f32, and
/// of bytes in other types.
std::shared_ptr<std::string> rampOf(mlir::RankedTensorType type) {
  const int64_t width = type.getElementType().isIndex() ? 8 : (type.getElementTypeBitWidth() + 7) / 8;
  auto bytes = std::make_shared<std::string>(type.getNumElements() * width, '\0');
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    if (type.getElementType().isF32()) {
      const float value = static_cast<float>(i % 61) / 64;
      std::memcpy(bytes->data() + i * 4, &value, 4);
    } else {
      (*bytes)[i * width] = static_cast<char>(i % 2);
    }
  }
  return bytes;
}

ImportedModel modelOf(mlir::ModuleOp module) {
  ImportedModel model;
  model.module = mlir::cast<mlir::ModuleOp>(module->clone());
  auto main = model.module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!main) return model;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    const mlir::Type type = main.getArgumentTypes()[i];
    v1::TensorSpec spec = specOf("arg" + std::to_string(i), type);
    auto weight = main.getArgAttrOfType<mlir::IntegerAttr>(i, kWeightAttribute);
    if (!weight) {
      model.inputs.push_back(std::move(spec));
      continue;
    }
    const auto index = static_cast<size_t>(weight.getInt());
    if (model.weights.size() <= index) model.weights.resize(index + 1);
    auto bytes = rampOf(mlir::cast<mlir::RankedTensorType>(type));
    model.weights[index] = {std::move(spec), *bytes, bytes};
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    model.outputs.push_back(specOf("result" + std::to_string(i), main.getResultTypes()[i]));
  }
  return model;
}

void print(const v1::Plan& plan, llvm::raw_ostream& out) {
  for (const v1::RewriteCount& rewrite : plan.report().rewrites()) {
    out << "rewrite " << rewrite.name() << ": " << rewrite.count() << "\n";
  }
  for (auto [index, step] : llvm::enumerate(plan.steps())) {
    out << "step " << index << ": " << plan.workloads(step.workload()).summary() << " (";
    for (auto [position, operand] : llvm::enumerate(step.operands())) {
      const v1::Buffer& buffer = plan.buffers(operand);
      llvm::StringRef kind = v1::Buffer::Kind_Name(buffer.kind());
      out << (position == 0 ? "" : ", ") << kind.lower() << " ";
      if (buffer.kind() != v1::Buffer::WEIGHT && buffer.kind() != v1::Buffer::ARENA) {
        out << buffer.index();
      } else {
        out << buffer.offset() << ".." << buffer.offset() + buffer.size_bytes();
      }
    }
    out << ")\n";
  }
  out << "steps " << plan.steps_size() << ", workloads " << plan.workloads_size() << ", layout transforms "
      << plan.report().layout_transforms() << ", arena " << plan.arena_bytes() << ", bound "
      << plan.report().peak_live_bytes() << ", sum " << plan.report().sum_intermediate_bytes() << "\n";
}

/// Plans @main and prints the plan instead of the module.
class PlanPass : public ModulePass<PlanPass> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanPass)
  PlanPass() = default;
  PlanPass(const PlanPass& other) : ModulePass(other) {}

  llvm::StringRef getArgument() const override { return "tessera-plan"; }
  llvm::StringRef getDescription() const override { return "Plan @main and print rewrites, steps and memory"; }
  void runOnOperation() override {
    v1::Target target;
    target.mutable_registers()->set_vector_bits(static_cast<int>(lanes_ * 32));
    target.add_memory()->set_bandwidth_bytes_per_cycle(16);  // one level, so no chains are formed
    absl::StatusOr<PlannedGraph> planned = planGraph(modelOf(getOperation()), target);
    if (!planned.ok()) {
      getOperation().emitError(std::string(planned.status().message()));
      return signalPassFailure();
    }
    print(planned->plan, llvm::outs());
    getOperation().getBody()->clear();
  }

 private:
  Option<int64_t> lanes_{*this, "lanes", llvm::cl::desc("f32 lanes of one vector register"), llvm::cl::init(16)};
};

}  // namespace

void registerPlanPass() {
  mlir::registerPass([]() -> std::unique_ptr<mlir::Pass> { return std::make_unique<PlanPass>(); });
}

}  // namespace tessera::compiler
