#include "compiler/ir/canonicalizer.h"

#include "gtest/gtest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

namespace tessera::compiler {
namespace {

/// Returns the insertion into a filled tensor after canonicalization, of a padded tensor with this stride.
mlir::tensor::InsertSliceOp canonicalInsertion(mlir::MLIRContext& context, mlir::OwningOpRef<mlir::ModuleOp>& module,
                                               int stride) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::tensor::TensorDialect>();
  module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @main(%x: tensor<5xf32>) -> tensor<16xf32> {
      %zero = arith.constant 0.0 : f32
      %padded = tensor.pad %x low[1] high[2] {
      ^bb0(%i: index):
        tensor.yield %zero : f32
      } : tensor<5xf32> to tensor<8xf32>
      %empty = tensor.empty() : tensor<16xf32>
      %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<16xf32>) -> tensor<16xf32>
      %result = tensor.insert_slice %padded into %filled[0] [8] [)" +
                                                       std::to_string(stride) + R"(] : tensor<8xf32> into tensor<16xf32>
      return %result : tensor<16xf32>
    })",
                                                   &context);
  EXPECT_TRUE(module);
  mlir::PassManager passes(&context);
  passes.addPass(createCanonicalizer());
  EXPECT_TRUE(mlir::succeeded(passes.run(*module)));
  mlir::tensor::InsertSliceOp insertion;
  module->walk([&](mlir::tensor::InsertSliceOp op) { insertion = op; });
  return insertion;
}

// The element after the padding belongs at stride times the padding, in any form.
TEST(Canonicalizer, WhatWasPaddedStaysInPlaceWhenItIsInsertedWithStrides) {
  for (int stride : {1, 2}) {
    mlir::MLIRContext context;
    mlir::OwningOpRef<mlir::ModuleOp> module;
    auto insertion = canonicalInsertion(context, module, stride);
    ASSERT_TRUE(insertion);
    const bool of_padded = static_cast<bool>(insertion.getSource().getDefiningOp<mlir::tensor::PadOp>());
    EXPECT_EQ(insertion.getStaticOffsets()[0], of_padded ? 0 : stride) << "stride " << stride;
    EXPECT_EQ(insertion.getStaticStrides()[0], stride);
  }
}

}  // namespace
}  // namespace tessera::compiler
