#include "compiler/ir/workload.h"

#include "gtest/gtest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "proto/support/sha256.h"

namespace tessera::compiler {
namespace {

class WorkloadTest : public ::testing::Test {
 protected:
  WorkloadTest() { context_.loadDialect<mlir::func::FuncDialect, mlir::arith::ArithDialect>(); }
  CanonicalWorkload canonical(const std::string& text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    auto function = *module->getOps<mlir::func::FuncOp>().begin();
    function->remove();
    mlir::OwningOpRef<mlir::func::FuncOp> owned(function);
    return canonicalizeWorkload(*owned);
  }
  mlir::MLIRContext context_;
};

TEST_F(WorkloadTest, NamesLocationsAndLabelsDoNotChangeIdentity) {
  CanonicalWorkload first = canonical(R"(
    func.func @first(%a: tensor<4xf32> {tessera.input = "x"}) -> tensor<4xf32> {
      %r = arith.addf %a, %a {label = "node 1"} : tensor<4xf32> loc("here")
      return %r : tensor<4xf32>
    })");
  CanonicalWorkload second = canonical(R"(
    func.func private @second(%b: tensor<4xf32>) -> tensor<4xf32> {
      %other = arith.addf %b, %b : tensor<4xf32>
      return %other : tensor<4xf32>
    })");
  EXPECT_EQ(first.ir, second.ir);
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_EQ(first.hash.size(), 64U);
  EXPECT_EQ(first.symbol, "w_" + first.hash.substr(0, 16));
}

TEST_F(WorkloadTest, ShapesAndOperationsDo) {
  const char* text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }";
  const char* wider = "func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }";
  EXPECT_NE(canonical(text).hash, canonical(wider).hash);
}

TEST_F(WorkloadTest, WhatAResultMayBeWrittenOverDoes) {
  const char* text = "func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }";
  const CanonicalWorkload over = canonical(
      "func.func @f(%a: tensor<4xf32>) -> (tensor<4xf32> {tessera.written_over = 0 : i64, tessera.output = \"y\"}) { "
      "return %a : tensor<4xf32> }");
  EXPECT_NE(over.hash, canonical(text).hash);
  EXPECT_NE(over.ir.find("{tessera.written_over = 0 : i64}"), std::string::npos) << over.ir;
  EXPECT_EQ(canonical(over.ir).ir, over.ir);
}

TEST_F(WorkloadTest, TheTextIsComplete) {
  CanonicalWorkload first = canonical(R"(
    func.func @f() -> tensor<40xi32> {
      %c = arith.constant dense<[0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9]>
        : tensor<40xi32>
      return %c : tensor<40xi32>
    })");
  EXPECT_EQ(canonical(first.ir).ir, first.ir);
  EXPECT_NE(first.ir.find("6, 7, 8, 9]"), std::string::npos) << first.ir;
}

TEST(Sha256, MatchesTheStandard) {
  EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace tessera::compiler
