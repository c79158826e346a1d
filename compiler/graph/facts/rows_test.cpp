#include "compiler/graph/facts/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// Values by the name of their location, as in loc("y").
class RowsTest : public testing::Test {
 protected:
  RowsTest() {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::tensor::TensorDialect>();
  }

  /// Of a function whose first argument has 8 rows along its first dimension.
  void find(const std::string& text) {
    model_.module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    ASSERT_TRUE(model_.module);
    v1::DimensionBinding& dimension = model_.dimensions.emplace_back();
    dimension.set_name("N");
    dimension.set_size(-8);
    auto main = mlir::cast<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model_.module, "main"));
    for (size_t i = 0; i < main.getNumArguments(); ++i) model_.inputs.emplace_back();
    model_.inputs[0].add_bounded_dims(0);
    model_.inputs[0].add_bounded_by(0);
    rows_ = findRows(model_, main);
    argument_ = main.getArgument(0);
  }
  /// 0: no rows.
  int64_t strideOf(const std::string& name) {
    int64_t stride = -1;
    model_.module->walk([&](mlir::Operation* op) {
      auto location = mlir::dyn_cast<mlir::NameLoc>(op->getLoc());
      if (!location || location.getName() != name || op->getNumResults() == 0) return;
      const auto found = rows_.find(op->getResult(0));
      stride = found == rows_.end() || found->second.empty() ? 0 : found->second[0].stride;
    });
    return stride;
  }
  int64_t strideOfArgument() const {
    const auto found = rows_.find(argument_);
    return found == rows_.end() || found->second.empty() ? 0 : found->second[0].stride;
  }

  mlir::MLIRContext context_;
  ImportedModel model_;
  RowsOfValues rows_;
  mlir::Value argument_;
};

TEST_F(RowsTest, FollowViewsProductsAndTransposes) {
  find(R"(func.func @main(%x: tensor<8x3x5xf32>, %w: tensor<5x7xf32>) -> tensor<7x24xf32> {
    %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<8x3x5xf32> into tensor<24x5xf32> loc("flat")
    %e = tensor.empty() : tensor<24x7xf32>
    %y = linalg.matmul ins(%flat, %w : tensor<24x5xf32>, tensor<5x7xf32>) outs(%e : tensor<24x7xf32>) -> tensor<24x7xf32> loc("y")
    %f = tensor.empty() : tensor<7x24xf32>
    %t = linalg.transpose ins(%y : tensor<24x7xf32>) outs(%f : tensor<7x24xf32>) permutation = [1, 0] loc("t")
    return %t : tensor<7x24xf32>
  })");
  EXPECT_EQ(strideOfArgument(), 15);
  EXPECT_EQ(strideOf("flat"), 15);
  EXPECT_EQ(strideOf("y"), 21);
  EXPECT_EQ(strideOf("t"), 3);
}

TEST_F(RowsTest, SlicesAndPadsOfOtherDimensionsKeepThem) {
  find(R"(func.func @main(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
    %c = arith.constant 0.0 : f32
    %s = tensor.extract_slice %x[0, 2] [8, 4] [1, 1] : tensor<8x6xf32> to tensor<8x4xf32> loc("s")
    %p = tensor.pad %s low[0, 1] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %c : f32
    } : tensor<8x4xf32> to tensor<8x6xf32> loc("p")
    return %p : tensor<8x6xf32>
  })");
  EXPECT_EQ(strideOf("s"), 4);
  EXPECT_EQ(strideOf("p"), 6);
}

TEST_F(RowsTest, ASumOverRowsNeedsWhateverItIsMadeOf) {
  find(R"(func.func @main(%x: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<6xf32>) {
    %e = tensor.empty() : tensor<8x6xf32>
    %a = linalg.add ins(%x, %x : tensor<8x6xf32>, tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32> loc("a")
    %b = linalg.add ins(%a, %a : tensor<8x6xf32>, tensor<8x6xf32>) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32> loc("b")
    %f = tensor.empty() : tensor<6xf32>
    %s = linalg.reduce ins(%a : tensor<8x6xf32>) outs(%f : tensor<6xf32>) dimensions = [0]
      (%in: f32, %out: f32) {
        %sum = arith.addf %in, %out : f32
        linalg.yield %sum : f32
      } loc("s")
    return %b, %s : tensor<8x6xf32>, tensor<6xf32>
  })");
  EXPECT_EQ(strideOf("s"), 0);
  EXPECT_EQ(strideOf("a"), 0);
  EXPECT_EQ(strideOfArgument(), 0);
  EXPECT_EQ(strideOf("b"), 6);
}

TEST_F(RowsTest, WhatAddressesComeOfIsThereAsAWhole) {
  const std::string text = R"(func.func @main(%x: tensor<8xi64>, %table: tensor<9x4xf32>) -> tensor<8x4xf32> {
    %e = tensor.empty() : tensor<8xi64>
    %i = linalg.add ins(%x, %x : tensor<8xi64>, tensor<8xi64>) outs(%e : tensor<8xi64>) -> tensor<8xi64> loc("i")
    %f = tensor.empty() : tensor<8x4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (a, b)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%i : tensor<8xi64>) outs(%f : tensor<8x4xf32>) {
    ^bb0(%number: i64, %out: f32):
      %at = arith.index_cast %number : i64 to index
      %column = linalg.index 1 : index
      %v = tensor.extract %table[%at, %column] : tensor<9x4xf32>
      linalg.yield %v : f32
    } -> tensor<8x4xf32> loc("y")
    return %y : tensor<8x4xf32>
  })";
  find(text);
  EXPECT_EQ(strideOf("i"), 0);
  EXPECT_EQ(strideOf("y"), 4);  // rows all the same: they may be left out
}

TEST_F(RowsTest, AnAddressThatIsTheSameForAllRowsNeedsNoneOfThem) {
  find(R"(func.func @main(%x: tensor<8x4xf32>, %last: tensor<i64>) -> tensor<8xf32> {
    %f = tensor.empty() : tensor<8xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>], iterator_types = ["parallel"]}
        outs(%f : tensor<8xf32>) {
    ^bb0(%out: f32):
      %row = linalg.index 0 : index
      %number = tensor.extract %last[] : tensor<i64>
      %at = arith.index_cast %number : i64 to index
      %v = tensor.extract %x[%row, %at] : tensor<8x4xf32>
      linalg.yield %v : f32
    } -> tensor<8xf32> loc("y")
    return %y : tensor<8xf32>
  })");
  EXPECT_EQ(strideOfArgument(), 4);
  EXPECT_EQ(strideOf("y"), 1);
}

TEST_F(RowsTest, ABodyThatReadsAtPositionsReadsItsRow) {
  find(R"(func.func @main(%x: tensor<8x4xf32>) -> tensor<8x8xf32> {
    %f = tensor.empty() : tensor<8x8xf32>
    %two = arith.constant 2 : index
    %y = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        outs(%f : tensor<8x8xf32>) {
    ^bb0(%out: f32):
      %row = linalg.index 0 : index
      %column = linalg.index 1 : index
      %half = arith.divui %column, %two : index
      %v = tensor.extract %x[%row, %half] : tensor<8x4xf32>
      linalg.yield %v : f32
    } -> tensor<8x8xf32> loc("y")
    return %y : tensor<8x8xf32>
  })");
  EXPECT_EQ(strideOfArgument(), 4);
  EXPECT_EQ(strideOf("y"), 8);
}

}  // namespace
}  // namespace tessera::compiler
