#include "compiler/driver/model_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// "O[i0, i1] += A[i0, r0] * B[r0, i1] | i0 4 i1 6 r0 5", or the obstacle.
std::string nestText(const std::string& arguments, const std::string& operation) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::tensor::TensorDialect>();
  const std::string text = absl::StrCat("func.func @main(", arguments, ") { ", operation, " return }");
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) return "does not parse";
  v1::OperatorNest nest;
  module->walk([&](mlir::linalg::LinalgOp op) { nest = nestOf(op); });
  if (!nest.obstacle().empty()) return nest.obstacle();
  std::vector<std::string> accesses, loops;
  for (const auto& access : nest.accesses()) {
    accesses.push_back(absl::StrCat(access.name(), "[", absl::StrJoin(access.subscripts(), ", "), "]"));
  }
  for (const auto& loop : nest.loops()) {
    loops.push_back(absl::StrCat(loop.name(), " ", loop.extent()));
    EXPECT_EQ(loop.reduction(), loop.name().starts_with("r"));
  }
  return absl::StrCat(v1::Intrinsic::Arithmetic::Form_Name(nest.form()), " ", absl::StrJoin(accesses, " "), " | ",
                      absl::StrJoin(loops, " "));
}

TEST(ModelOperators, ProductsAndConvolutionsAreSumsOfProducts) {
  EXPECT_EQ(nestText("%a: tensor<4x5xf32>, %b: tensor<5x6xf32>, %c: tensor<4x6xf32>",
                     "%0 = linalg.matmul ins(%a, %b : tensor<4x5xf32>, tensor<5x6xf32>) outs(%c : tensor<4x6xf32>) -> "
                     "tensor<4x6xf32>"),
            "MULTIPLY_ADD O[i0, i1] A[i0, r0] B[r0, i1] | i0 4 i1 6 r0 5");
  EXPECT_EQ(nestText("%x: tensor<1x3x9x9xf32>, %w: tensor<8x3x3x3xf32>, %o: tensor<1x8x4x4xf32>",
                     "%0 = linalg.conv_2d_nchw_fchw {strides = dense<2> : vector<2xi64>} ins(%x, %w : "
                     "tensor<1x3x9x9xf32>, tensor<8x3x3x3xf32>) outs(%o : tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>"),
            "MULTIPLY_ADD O[i0, i1, i2, i3] A[i0, r0, 2 * i2 + r1, 2 * i3 + r2] B[i1, r0, r1, r2] | "
            "i0 1 i1 8 i2 4 i3 4 r0 3 r1 3 r2 3");
}

/// Four sums over windows of six of nine elements; the window gives its extent, as in pooling.
std::string row(const std::string& body) {
  return nestText("%a: tensor<9xf32>, %w: tensor<6xf32>, %o: tensor<4xf32>",
                  absl::StrCat("%0 = linalg.generic {indexing_maps = [affine_map<(i, r) -> (i + r)>, affine_map<(i, r) "
                               "-> (r)>, affine_map<(i, r) -> (i)>], iterator_types = [\"parallel\", \"reduction\"]} "
                               "ins(%a, %w : tensor<9xf32>, tensor<6xf32>) outs(%o : tensor<4xf32>) { ^bb0(%x: f32, "
                               "%v: f32, %s: f32): ",
                               body, " } -> tensor<4xf32>"));
}

TEST(ModelOperators, SumsAndExtremaAreKnown) {
  EXPECT_EQ(row("%y = arith.maximumf %s, %x : f32 linalg.yield %y : f32"), "MAXIMUM O[i0] A[i0 + r0] | i0 4 r0 6");
  EXPECT_EQ(row("%y = arith.addf %x, %s : f32 linalg.yield %y : f32"), "ADD O[i0] A[i0 + r0] | i0 4 r0 6");
  EXPECT_EQ(row("%p = arith.mulf %x, %x : f32 %y = arith.addf %p, %s : f32 linalg.yield %y : f32"),
            "MULTIPLY_ADD O[i0] A[i0 + r0] B[i0 + r0] | i0 4 r0 6");
}

TEST(ModelOperators, ObstaclesSayWhatTheyAre) {
  EXPECT_EQ(row("linalg.yield %x : f32"), "moves or converts elements");
  EXPECT_EQ(row("%y = arith.subf %s, %x : f32 linalg.yield %y : f32"), "sums nothing");
  EXPECT_EQ(row("%d = arith.subf %x, %x : f32 %y = arith.addf %s, %d : f32 linalg.yield %y : f32"),
            "sums terms that are not products of elements");
}

}  // namespace
}  // namespace tessera::compiler
