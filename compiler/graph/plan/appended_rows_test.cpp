#include "compiler/graph/plan/appended_rows.h"

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

/// Concatenates %past [2, 9, 4], of run-time length, and two new rows along dimension 1, as the importer emits it.
constexpr char kConcat[] = R"(
  #id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
  func.func @w(%length: tensor<i64>, %past: tensor<2x9x4xf32>, %new: tensor<2x2x4xf32>) -> tensor<2x11x4xf32> {
    %0 = tensor.empty() : tensor<2x11x4xf32>
    %c1 = arith.constant 1 : i64
    %c0 = arith.constant 0 : i64
    %c8 = arith.constant 8 : i64
    %1 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel", "parallel"]}
        outs(%0 : tensor<2x11x4xf32>) {
    ^bb0(%out: f32):
      %i = linalg.index 0 : index
      %j = linalg.index 1 : index
      %k = linalg.index 2 : index
      %place = arith.index_cast %j : index to i64
      %n = tensor.extract %length[] : tensor<i64>
      %a = arith.maxsi %n, %c1 : i64
      %b = arith.subi %a, %c1 : i64
      %c = arith.minsi %place, %b : i64
      %d = arith.maxsi %c, %c0 : i64
      %e = arith.minsi %d, %c8 : i64
      %f = arith.index_cast %e : i64 to index
      %old = tensor.extract %past[%i, %f, %k] : tensor<2x9x4xf32>
      %g = arith.subi %place, %n : i64
      %h = arith.minsi %g, %c1 : i64
      %l = arith.maxsi %h, %c0 : i64
      %m = arith.index_cast %l : i64 to index
      %fresh = tensor.extract %new[%i, %m, %k] : tensor<2x2x4xf32>
      %below = arith.cmpi slt, %place, %n : i64
      %r = arith.select %below, %old, %fresh : f32
      linalg.yield %r : f32
    } -> tensor<2x11x4xf32>
    return %1 : tensor<2x11x4xf32>
  })";

class AppendedRows : public testing::Test {
 protected:
  AppendedRows() {
    context_.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                         mlir::tensor::TensorDialect>();
  }

  /// The function after replacements in the text.
  mlir::func::FuncOp parse(const std::vector<std::pair<std::string, std::string>>& replacements) {
    const std::string text = absl::StrReplaceAll(kConcat, replacements);
    EXPECT_TRUE(replacements.empty() || text != kConcat);
    module_ = mlir::parseSourceString<mlir::ModuleOp>(text, &context_);
    if (!module_) ADD_FAILURE() << text;
    return *module_->getOps<mlir::func::FuncOp>().begin();
  }
  bool matches(const std::vector<std::pair<std::string, std::string>>& replacements) {
    mlir::func::FuncOp function = parse(replacements);
    return matchConcat(function, function.getArgument(1), 1).has_value();
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

TEST_F(AppendedRows, AreComputedWithoutThePast) {
  mlir::func::FuncOp function = parse({});
  const auto match = matchConcat(function, function.getArgument(1), 1);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->length, function.getArgument(0));
  keepAppendedRows(function, *match, 2);
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module_)));
  std::string text;
  llvm::raw_string_ostream(text) << function;
  EXPECT_THAT(text, testing::HasSubstr("-> tensor<2x2x4xf32> {")) << text;
  EXPECT_TRUE(function.getArgument(1).use_empty()) << text;
  EXPECT_TRUE(function.getArgument(0).use_empty()) << text;  // row - length + length
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("subi"))) << text;
  EXPECT_EQ(sourceOfRows(function, 1), function.getArgument(2));
  EXPECT_FALSE(sourceOfRows(function, 2));
}

TEST_F(AppendedRows, OfAnotherFormAreShiftedByTheLength) {
  // The place in the whole counts, beside its difference to the length.
  mlir::func::FuncOp function =
      parse({{"%new[%i, %m, %k]", "%new[%i, %m, %q]"},
             {"%m = arith.index_cast", "%q = arith.remui %j, %k : index\n %m = arith.index_cast"}});
  const auto match = matchConcat(function, function.getArgument(1), 1);
  ASSERT_TRUE(match);
  keepAppendedRows(function, *match, 2);
  ASSERT_TRUE(mlir::succeeded(mlir::verify(*module_)));
  EXPECT_FALSE(function.getArgument(0).use_empty());
  EXPECT_FALSE(sourceOfRows(function, 1));
  std::string text;
  llvm::raw_string_ostream(text) << function;
  EXPECT_THAT(text, testing::HasSubstr("arith.addi")) << text;
}

TEST_F(AppendedRows, AreRefusedWhereThePastDoesNotKeepItsPlace) {
  EXPECT_TRUE(matches({}));
  EXPECT_FALSE(matches({{"%c8 = arith.constant 8", "%c8 = arith.constant 7"}}));      // row 8 is lost
  EXPECT_FALSE(matches({{"%d = arith.maxsi %c, %c0", "%d = arith.maxsi %c, %c1"}}));  // row 0 is lost
  EXPECT_FALSE(matches({{"cmpi slt", "cmpi sle"}}));                                  // a row too many
  EXPECT_FALSE(matches({{"%past[%i, %f, %k]", "%past[%i, %f, %i]"}}));                // other elements
  EXPECT_FALSE(matches({{"select %below, %old, %fresh", "select %below, %fresh, %old"}}));
  EXPECT_FALSE(matches({{"%b = arith.subi %a, %c1", "%b = arith.subi %a, %c8"}}));  // the last rows are lost
  EXPECT_FALSE(matches({{"%r = arith.select %below, %old, %fresh : f32",
                         "%s = arith.addf %old, %old : f32\n %r = arith.select %below, %s, %fresh : f32"}}));
  EXPECT_FALSE(matches({{"%r = arith.select %below, %old, %fresh : f32",
                         "%other = tensor.extract %past[%i, %j, %k] : tensor<2x9x4xf32>\n"
                         "%s = arith.addf %fresh, %other : f32\n %r = arith.select %below, %old, %s : f32"}}));
}

}  // namespace
}  // namespace tessera::compiler
