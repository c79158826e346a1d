#include "compiler/graph/graph.h"

#include <cmath>
#include <cstring>

#include "compiler/graph/plan_executor.h"
#include "gtest/gtest.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

v1::TensorSpec specOf(const std::string& name, mlir::Type type) {
  v1::TensorSpec spec;
  spec.set_name(name);
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  mlir::Type element = tensor.getElementType();
  spec.set_dtype(element.isF32()         ? v1::DATA_TYPE_F32
                 : element.isF64()       ? v1::DATA_TYPE_F64
                 : element.isInteger(64) ? v1::DATA_TYPE_I64
                 : element.isInteger(32) ? v1::DATA_TYPE_I32
                                         : v1::DATA_TYPE_BOOL);
  for (int64_t extent : tensor.getShape()) spec.add_shape(extent);
  return spec;
}

/// Parses a module in the importer's form; arguments whose attribute is `tessera.weight` get seeded bytes.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    mlir::DialectRegistry registry;
    mlir::registerAllDialects(registry);
    context_.appendDialectRegistry(registry);
    target_.mutable_registers()->set_vector_bits(512);
    target_.mutable_registers()->set_vector_count(32);
  }

  ImportedModel parse(const std::string& text) {
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

  /// Plans, runs both, compares; returns the plan for further checks.
  PlannedGraph check(const std::string& text, double tolerance = 1e-4) {
    ImportedModel model = parse(text);
    TensorBytes inputs;
    for (size_t i = 0; i < model.inputs.size(); ++i) inputs.push_back(randomBytes(model.inputs[i], i + 1));
    absl::StatusOr<TensorBytes> expected = runModel(model, inputs);
    EXPECT_TRUE(expected.ok()) << expected.status();
    absl::StatusOr<PlannedGraph> planned = planGraph(std::move(model), target_);
    EXPECT_TRUE(planned.ok()) << planned.status();
    if (!planned.ok() || !expected.ok()) return {};
    absl::StatusOr<TensorBytes> found = runPlan(*planned, inputs);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return {};
    for (int output = 0; output < planned->plan.outputs_size(); ++output) {
      compare(planned->plan.outputs(output), (*expected)[output], (*found)[output], tolerance);
    }
    if (::testing::Test::HasFailure()) ADD_FAILURE() << planned->plan.DebugString();
    return std::move(*planned);
  }

  static void compare(const v1::TensorSpec& spec, const std::string& expected, const std::string& found,
                      double tolerance) {
    ASSERT_EQ(expected.size(), found.size());
    if (spec.dtype() != v1::DATA_TYPE_F32) {
      EXPECT_EQ(expected, found) << spec.name();
      return;
    }
    std::vector<float> a(expected.size() / 4);
    std::vector<float> b(a.size());
    std::memcpy(a.data(), expected.data(), expected.size());
    std::memcpy(b.data(), found.data(), found.size());
    double largest = 1e-6;
    for (float value : a) largest = std::max<double>(largest, std::abs(value));
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_LE(std::abs(a[i] - b[i]), tolerance * largest)
          << spec.name() << " at " << i << ": " << a[i] << " " << b[i];
    }
  }

  mlir::MLIRContext context_;
  v1::Target target_;
};

TEST_F(PlanTest, MatmulBiasReluIsOneStep) {
  PlannedGraph planned = check(R"(
    func.func @main(%x: tensor<5x17xf32>, %w: tensor<17x24xf32> {tessera.weight = 0 : i64},
                    %b: tensor<24xf32> {tessera.weight = 1 : i64}) -> tensor<5x24xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<5x24xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x24xf32>) -> tensor<5x24xf32>
      %m = linalg.matmul ins(%x, %w : tensor<5x17xf32>, tensor<17x24xf32>) outs(%f : tensor<5x24xf32>) -> tensor<5x24xf32>
      %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%m, %b : tensor<5x24xf32>, tensor<24xf32>) outs(%e : tensor<5x24xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.addf %p, %q : f32
          linalg.yield %s : f32
      } -> tensor<5x24xf32>
      %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%a : tensor<5x24xf32>) outs(%e : tensor<5x24xf32>) {
        ^bb0(%p: f32, %o: f32):
          %s = arith.maximumf %p, %zero : f32
          linalg.yield %s : f32
      } -> tensor<5x24xf32>
      return %r : tensor<5x24xf32>
    })");
  EXPECT_EQ(planned.plan.steps_size(), 1);
  EXPECT_EQ(planned.plan.arena_bytes(), 0);
}

TEST_F(PlanTest, OutputsThatNoStepComputesAreCopied) {
  PlannedGraph planned = check(R"(
    func.func @main(%x: tensor<6xf32>, %unused: tensor<3xf32>, %w: tensor<4xf32> {tessera.weight = 0 : i64})
        -> (tensor<6xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>) {
      %c = arith.constant dense<2.5> : tensor<5xf32>
      %v = tensor.expand_shape %x [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
      %e = tensor.empty() : tensor<6xf32>
      %r = linalg.exp ins(%x : tensor<6xf32>) outs(%e : tensor<6xf32>) -> tensor<6xf32>
      %rv = tensor.expand_shape %r [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
      return %x, %v, %w, %c, %r, %r, %rv : tensor<6xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>
    })");
  EXPECT_EQ(planned.plan.steps_size(), 7);
}

TEST_F(PlanTest, BooleansCrossAsBytes) {
  check(R"(
    func.func @main(%x: tensor<2x7xf32>, %y: tensor<2x7xf32>) -> (tensor<2x7xf32>, tensor<2x7xf32>, tensor<2x7xf32>) {
      %e1 = tensor.empty() : tensor<2x7xi1>
      %e = tensor.empty() : tensor<2x7xf32>
      %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<2x7xf32>, tensor<2x7xf32>) outs(%e1 : tensor<2x7xi1>) {
        ^bb0(%p: f32, %q: f32, %o: i1):
          %s = arith.cmpf olt, %p, %q : f32
          linalg.yield %s : i1
      } -> tensor<2x7xi1>
      %s0 = linalg.select ins(%c, %x, %y : tensor<2x7xi1>, tensor<2x7xf32>, tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
      %s1 = linalg.select ins(%c, %y, %x : tensor<2x7xi1>, tensor<2x7xf32>, tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
      %s2 = linalg.exp ins(%s0 : tensor<2x7xf32>) outs(%e : tensor<2x7xf32>) -> tensor<2x7xf32>
      return %s0, %s1, %s2 : tensor<2x7xf32>, tensor<2x7xf32>, tensor<2x7xf32>
    })");
}

TEST_F(PlanTest, SoftmaxIsOneWorkload) {
  PlannedGraph planned = check(R"(
    #id = affine_map<(i, j) -> (i, j)>
    #row = affine_map<(i, j) -> (i)>
    func.func @main(%x: tensor<7x13xf32>) -> tensor<7x13xf32> {
      %low = arith.constant 0xFF800000 : f32
      %zero = arith.constant 0.0 : f32
      %er = tensor.empty() : tensor<7xf32>
      %e = tensor.empty() : tensor<7x13xf32>
      %fl = linalg.fill ins(%low : f32) outs(%er : tensor<7xf32>) -> tensor<7xf32>
      %fz = linalg.fill ins(%zero : f32) outs(%er : tensor<7xf32>) -> tensor<7xf32>
      %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
          ins(%x : tensor<7x13xf32>) outs(%fl : tensor<7xf32>) {
        ^bb0(%p: f32, %o: f32):
          %s = arith.maximumf %p, %o : f32
          linalg.yield %s : f32
      } -> tensor<7xf32>
      %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
          ins(%x, %m : tensor<7x13xf32>, tensor<7xf32>) outs(%e : tensor<7x13xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.subf %p, %q : f32
          %t = math.exp %s : f32
          linalg.yield %t : f32
      } -> tensor<7x13xf32>
      %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
          ins(%d : tensor<7x13xf32>) outs(%fz : tensor<7xf32>) {
        ^bb0(%p: f32, %o: f32):
          %s = arith.addf %p, %o : f32
          linalg.yield %s : f32
      } -> tensor<7xf32>
      %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
          ins(%d, %sum : tensor<7x13xf32>, tensor<7xf32>) outs(%e : tensor<7x13xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %s = arith.divf %p, %q : f32
          linalg.yield %s : f32
      } -> tensor<7x13xf32>
      return %r : tensor<7x13xf32>
    })");
  EXPECT_EQ(planned.plan.steps_size(), 1);
}

}  // namespace
}  // namespace tessera::compiler
