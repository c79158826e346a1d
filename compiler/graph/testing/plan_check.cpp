#include "compiler/graph/testing/plan_check.h"

#include "compiler/graph/analysis/element_type.h"
#include "compiler/interpreter/random_array.h"
#include "compiler/ir/weight_attribute.h"
#include "compiler/verification/graph_check.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// Returns seeded bytes of a weight: floating point in [-1, 1], integers in [0, 3].
std::string seededBytes(const v1::TensorSpec& spec, uint64_t seed) {
  const llvm::SmallVector<int64_t> shape(spec.shape().begin(), spec.shape().end());
  interpreter::Array array = interpreter::randomArray(verification::elementOf(spec), shape, {seed, -1, 1, 0, 3});
  const int64_t mask = spec.dtype() == v1::DATA_TYPE_BOOL ? 1 : 3;
  for (int64_t& value : array.storage->integer) value &= mask;
  return interpreter::toBytes(array);
}

/// Gives seeded bytes to the weight of an argument; arguments of several functions may be the same weight.
void addWeight(ImportedModel& model, mlir::func::FuncOp function, unsigned argument, v1::TensorSpec spec,
               uint64_t seed) {
  auto weight = function.getArgAttrOfType<mlir::IntegerAttr>(argument, kWeightAttribute);
  if (!weight) return;
  const auto index = static_cast<size_t>(weight.getInt());
  if (model.weights.size() <= index) model.weights.resize(index + 1);
  if (model.weights[index].owner) return;
  auto bytes = std::make_shared<std::string>(seededBytes(spec, seed));
  model.weights[index] = {std::move(spec), *bytes, bytes};
}

}  // namespace

PlanTest::PlanTest() {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  context_.appendDialectRegistry(registry);
  target_.mutable_registers()->set_vector_bits(512);
  target_.mutable_registers()->set_vector_count(32);
  target_.add_memory()->set_bandwidth_bytes_per_cycle(16);  // one level: no chains
}

ImportedModel PlanTest::parse(const std::string& text) {
  ImportedModel model;
  model.module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
  EXPECT_TRUE(model.module) << text;
  auto main = model.module->lookupSymbol<mlir::func::FuncOp>("main");
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    v1::TensorSpec spec = specOf("arg" + std::to_string(i), main.getArgumentTypes()[i]);
    if (!main.getArgAttr(i, kWeightAttribute)) model.inputs.push_back(spec);
    addWeight(model, main, i, std::move(spec), 100 + i);
  }
  // Bodies of loops have weights as well.
  for (auto body : model.module->getOps<mlir::func::FuncOp>()) {
    for (unsigned i = 0; body != main && i < body.getNumArguments(); ++i) {
      const std::string name = body.getSymName().str() + ".arg" + std::to_string(i);
      addWeight(model, body, i, specOf(name, body.getArgumentTypes()[i]), 1000 + model.weights.size());
    }
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    model.outputs.push_back(specOf("out" + std::to_string(i), main.getResultTypes()[i]));
  }
  return model;
}

PlannedGraph PlanTest::check(ImportedModel model) {
  verification::GraphCheck check;
  GraphOptions options = options_;
  options.observer = &check;
  absl::StatusOr<PlannedGraph> planned = planGraph(std::move(model), target_, options);
  EXPECT_TRUE(planned.ok()) << planned.status();
  for (const v1::VerifiedStep& step : check.steps()) EXPECT_EQ(step.skipped(), "") << step.step();
  return planned.ok() ? std::move(*planned) : PlannedGraph{};
}

}  // namespace tessera::compiler
