#include "compiler/graph/analysis/body_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// The names of an elementwise body of %x and %y that ends with "%r = ...".
std::string namesOf(const std::string& body) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  const std::string text = absl::StrCat(R"(
    #id = affine_map<(d0) -> (d0)>
    func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %six = arith.constant 6.0 : f32
      %c = arith.constant 0.7 : f32
      %out = tensor.empty() : tensor<5xf32>
      %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
          ins(%a, %b : tensor<5xf32>, tensor<5xf32>) outs(%out : tensor<5xf32>) {
      ^bb0(%x: f32, %y: f32, %o: f32):
)",
                                        body, R"(
        linalg.yield %r : f32
      } -> tensor<5xf32>
      return %0 : tensor<5xf32>
    })");
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) return "invalid text";
  std::string names;
  module->walk([&](mlir::linalg::LinalgOp op) { names = absl::StrJoin(bodyNames(op), " + "); });
  return names;
}

TEST(BodyNames, AreThoseOfKnownFunctions) {
  EXPECT_EQ(namesOf("%r = arith.maximumf %x, %zero : f32"), "relu");
  EXPECT_EQ(namesOf("%t = arith.addf %x, %y : f32\n"
                    "%b0 = arith.cmpf olt, %t, %zero : f32\n"
                    "%r = arith.select %b0, %zero, %t : f32"),
            "add + relu");
  EXPECT_EQ(namesOf("%b0 = arith.cmpf ogt, %x, %zero : f32\n"
                    "%r = arith.select %b0, %x, %zero : f32"),
            "relu");
  EXPECT_EQ(namesOf("%l = arith.maximumf %x, %zero : f32\n"
                    "%r = arith.minimumf %l, %six : f32"),
            "relu6");
  EXPECT_EQ(namesOf("%b0 = arith.cmpf olt, %x, %zero : f32\n"
                    "%m = arith.mulf %x, %c : f32\n"
                    "%r = arith.select %b0, %m, %x : f32"),
            "leaky relu");
  EXPECT_EQ(namesOf("%n = arith.negf %x : f32\n"
                    "%e = math.exp %n : f32\n"
                    "%s = arith.addf %one, %e : f32\n"
                    "%r = arith.divf %one, %s : f32"),
            "sigmoid");
  EXPECT_EQ(namesOf("%v = arith.mulf %x, %y : f32\n"
                    "%n = arith.negf %v : f32\n"
                    "%e = math.exp %n : f32\n"
                    "%s = arith.addf %one, %e : f32\n"
                    "%d = arith.divf %one, %s : f32\n"
                    "%r = arith.mulf %v, %d : f32"),
            "mul + silu");
  EXPECT_EQ(namesOf("%v = arith.addf %x, %y : f32\n"
                    "%m = arith.mulf %v, %c : f32\n"
                    "%e = math.erf %m : f32\n"
                    "%s = arith.addf %e, %one : f32\n"
                    "%h = arith.mulf %v, %c : f32\n"
                    "%r = arith.mulf %h, %s : f32"),
            "add + gelu");
}

TEST(BodyNames, AreThoseOfTheOperationsOtherwise) {
  EXPECT_EQ(namesOf("%r = arith.addf %x, %y : f32"), "add");
  EXPECT_EQ(namesOf("%r = arith.maximumf %x, %y : f32"), "max");
  EXPECT_EQ(namesOf("%b0 = arith.cmpf olt, %x, %y : f32\n"
                    "%r = arith.select %b0, %y, %x : f32"),
            "cmp + select");
  EXPECT_EQ(namesOf("%b0 = arith.cmpf olt, %x, %one : f32\n"
                    "%r = arith.select %b0, %zero, %x : f32"),
            "cmp + select")
      << "a threshold is no clip";
  EXPECT_EQ(namesOf("%m = arith.maximumf %x, %zero : f32\n"
                    "%t = arith.cmpf olt, %m, %y : f32\n"
                    "%r = arith.select %t, %m, %y : f32"),
            "relu + cmp + select");
}

TEST(BodyNames, OfASoftmaxAreOne) {
  using testing::ElementsAre;
  EXPECT_THAT(withSoftmax({"matmul 3x4x5", "reduce(max) 3x4", "sub + exp", "reduce(add) 3x4", "div", "mul"}),
              ElementsAre("matmul 3x4x5", "softmax 3x4", "mul"));
  EXPECT_THAT(withSoftmax({"reduce(max) 3x4", "cmp + select", "sub + exp", "reduce(add) 3x4", "cmp + select", "div"}),
              ElementsAre("softmax 3x4"));
  EXPECT_THAT(withSoftmax({"reduce(max) 3x4", "sub + exp", "reduce(add) 3x4"}),
              ElementsAre("reduce(max) 3x4", "sub + exp", "reduce(add) 3x4"));
}

}  // namespace
}  // namespace tessera::compiler
