#include "compiler/graph/testing/plan_check.h"

#include <cmath>
#include <cstring>

#include "compiler/graph/facts/element_type.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

std::vector<float> floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void compare(const v1::TensorSpec& spec, const std::string& expected, const std::string& found, double tolerance) {
  ASSERT_EQ(expected.size(), found.size());
  if (spec.dtype() != v1::DATA_TYPE_F32) {
    EXPECT_EQ(expected, found) << spec.name();
    return;
  }
  std::vector<float> a = floats(expected);
  std::vector<float> b = floats(found);
  double largest = 1e-6;
  for (float value : a) largest = std::max<double>(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    // Written so that NaN on either side fails.
    if (std::abs(a[i] - b[i]) <= tolerance * largest) continue;
    FAIL() << spec.name() << " at " << i << ": expected " << a[i] << ", found " << b[i];
  }
}

}  // namespace

PlanTest::PlanTest() {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  context_.appendDialectRegistry(registry);
  target_.mutable_registers()->set_vector_bits(512);
  target_.mutable_registers()->set_vector_count(32);
}

ImportedModel PlanTest::parse(const std::string& text) {
  ImportedModel model;
  model.module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
  EXPECT_TRUE(model.module) << text;
  auto main = model.module->lookupSymbol<mlir::func::FuncOp>("main");
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto weight = main.getArgAttrOfType<mlir::IntegerAttr>(i, "tessera.weight");
    v1::TensorSpec spec = specOf("arg" + std::to_string(i), main.getArgumentTypes()[i]);
    if (!weight) {
      model.inputs.push_back(spec);
      continue;
    }
    if (model.weights.size() <= static_cast<size_t>(weight.getInt())) model.weights.resize(weight.getInt() + 1);
    auto bytes = std::make_shared<std::string>(randomBytes(spec, 100 + i));
    model.weights[weight.getInt()] = {spec, *bytes, bytes};
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    model.outputs.push_back(specOf("out" + std::to_string(i), main.getResultTypes()[i]));
  }
  return model;
}

PlannedGraph PlanTest::check(ImportedModel model, double tolerance) {
  TensorBytes inputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) inputs.push_back(randomBytes(model.inputs[i], i + 1));
  absl::StatusOr<TensorBytes> expected = runModel(model, inputs);
  EXPECT_TRUE(expected.ok()) << expected.status();
  absl::StatusOr<PlannedGraph> planned = planGraph(std::move(model), target_, options_);
  EXPECT_TRUE(planned.ok()) << planned.status();
  if (!planned.ok() || !expected.ok()) return {};
  absl::StatusOr<TensorBytes> found = runPlan(*planned, inputs);
  EXPECT_TRUE(found.ok()) << found.status();
  if (!found.ok()) return {};
  for (int output = 0; output < planned->plan.outputs_size(); ++output) {
    compare(planned->plan.outputs(output), (*expected)[output], (*found)[output], tolerance);
  }
  if (HasFailure()) {
    for (const v1::Step& step : planned->plan.steps()) {
      const v1::Workload& workload = planned->plan.workloads(step.workload());
      ADD_FAILURE() << step.ShortDebugString() << "\n" << workload.summary() << "\n" << workload.ir();
    }
  }
  return std::move(*planned);
}

}  // namespace tessera::compiler
